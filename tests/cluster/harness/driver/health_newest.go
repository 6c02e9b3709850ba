//go:build !kubernetes_1_36

package driver

import (
	"context"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// reporting is the plugin as the library of Kubernetes 1.37 wants it.
type reporting struct{ *plugin }

// WatchHealthStatus tells the kubelet of each device whether it is healthy.
func (r reporting) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	return r.watchHealth(ctx, func(devices []deviceHealth) error {
		var report kubeletplugin.DeviceHealthReport
		for _, each := range devices {
			reported := kubeletplugin.DeviceHealth{
				PoolName:    each.pool,
				DeviceName:  each.device,
				Health:      kubeletplugin.HealthStatusHealthy,
				LastUpdated: time.Now(),
				Message:     each.message,
			}
			if each.message != "" {
				reported.Health = kubeletplugin.HealthStatusUnhealthy
			}
			report.Devices = append(report.Devices, reported)
		}
		select {
		case <-ctx.Done():
		case reports <- report:
		}
		return nil
	})
}
