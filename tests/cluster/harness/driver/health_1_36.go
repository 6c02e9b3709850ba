//go:build kubernetes_1_36

package driver

import (
	"time"

	health "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
)

// reporting is the plugin as the library of Kubernetes 1.36 wants it: it serves the kubelet's requests for health itself.
type reporting struct {
	*plugin
	health.UnimplementedDRAResourceHealthServer
}

// NodeWatchResources tells the kubelet of each device whether it is healthy.
func (r reporting) NodeWatchResources(_ *health.NodeWatchResourcesRequest, stream health.DRAResourceHealth_NodeWatchResourcesServer) error {
	return r.watchHealth(stream.Context(), func(devices []deviceHealth) error {
		response := &health.NodeWatchResourcesResponse{}
		for _, each := range devices {
			reported := &health.DeviceHealth{
				Device:          &health.DeviceIdentifier{PoolName: each.pool, DeviceName: each.device},
				Health:          health.HealthStatus_HEALTHY,
				LastUpdatedTime: time.Now().Unix(),
				Message:         each.message,
			}
			if each.message != "" {
				reported.Health = health.HealthStatus_UNHEALTHY
			}
			response.Devices = append(response.Devices, reported)
		}
		return stream.Send(response)
	})
}
