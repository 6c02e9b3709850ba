package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applyresource "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
)

// interfaceAttribute marks network interfaces; its value is the interface's name on the node.
const interfaceAttribute = "ifName"

var notInVariable = regexp.MustCompile("[^A-Z0-9]")

type plugin struct {
	name   string
	cdi    string
	client kubernetes.Interface
	helper *kubeletplugin.Helper

	mutex    sync.Mutex
	settings *Settings
	calls    []*Call
	// changed is closed, and replaced, when the settings change.
	changed chan struct{}
}

var _ kubeletplugin.DRAPlugin = reporting{}

func newPlugin(name, cdi string, client kubernetes.Interface, settings *Settings) *plugin {
	return &plugin{name: name, cdi: cdi, client: client, settings: settings, changed: make(chan struct{})}
}

func (p *plugin) current() (*Settings, <-chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.settings, p.changed
}

func (p *plugin) apply(ctx context.Context, settings *Settings) error {
	p.mutex.Lock()
	p.settings = settings
	close(p.changed)
	p.changed = make(chan struct{})
	p.mutex.Unlock()
	return p.publish(ctx)
}

func (p *plugin) publish(ctx context.Context) error {
	settings, _ := p.current()
	return p.helper.PublishResources(ctx, settings.Resources)
}

func (p *plugin) state() (state, error) {
	files, err := filepath.Glob(p.file("*"))
	if err != nil {
		return state{}, err
	}
	prefix, suffix, _ := strings.Cut(p.file("*"), "*")
	found := state{Prepared: []string{}, Calls: []Call{}}
	for _, file := range files {
		found.Prepared = append(found.Prepared, strings.TrimSuffix(strings.TrimPrefix(file, prefix), suffix))
	}
	if registration := p.helper.RegistrationStatus(); registration != nil {
		found.Registered = registration.PluginRegistered
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, call := range p.calls {
		found.Calls = append(found.Calls, *call)
	}
	return found, nil
}

// record notes a call; what it returns notes the end.
func (p *plugin) record(method, claim string, uid types.UID) func(error) {
	call := &Call{Method: method, Claim: claim, UID: string(uid), Began: seconds(time.Now())}
	p.mutex.Lock()
	p.calls = append(p.calls, call)
	p.mutex.Unlock()
	return func(err error) {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		call.Ended = seconds(time.Now())
		if err != nil {
			call.Error = err.Error()
		}
	}
}

func seconds(when time.Time) float64 {
	return float64(when.UnixMicro()) / 1e6
}

// PrepareResourceClaims writes a CDI file for each claim, and the state of network interfaces into its status.
func (p *plugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, claim := range claims {
		end := p.record("prepare", claim.Namespace+"/"+claim.Name, claim.UID)
		devices, err := p.prepare(ctx, claim)
		end(err)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (p *plugin) prepare(ctx context.Context, claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	settings, _ := p.current()
	if err := sleep(ctx, between(settings.PrepareSeconds)); err != nil {
		return nil, err
	}
	spec := cdiSpec{Version: "0.5.0", Kind: p.name + "/device"}
	var devices []kubeletplugin.Device
	var statuses []*applyresource.AllocatedDeviceStatusApplyConfiguration
	for index, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != p.name {
			continue
		}
		if err := prepareError(settings, result); err != nil {
			return nil, err
		}
		id := fmt.Sprintf("%s-%d", claim.UID, index)
		edits, err := p.edits(settings, claim, result)
		if err != nil {
			return nil, err
		}
		spec.Devices = append(spec.Devices, cdiDevice{Name: id, Edits: edits})
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{result.Request},
			PoolName:     result.Pool,
			DeviceName:   result.Device,
			ShareID:      result.ShareID,
			CDIDeviceIDs: []string{spec.Kind + "=" + id},
		})
		if status := networkStatus(settings, claim, index); status != nil {
			statuses = append(statuses, status)
		}
	}
	if err := spec.write(p.file(string(claim.UID))); err != nil {
		return nil, err
	}
	if len(statuses) == 0 {
		return devices, nil
	}
	// The UID makes this fail if the claim was made again meanwhile.
	configuration := applyresource.ResourceClaim(claim.Name, claim.Namespace).WithUID(claim.UID).
		WithStatus(applyresource.ResourceClaimStatus().WithDevices(statuses...))
	_, err := p.client.ResourceV1().ResourceClaims(claim.Namespace).
		ApplyStatus(ctx, configuration, metav1.ApplyOptions{FieldManager: p.name, Force: true})
	return devices, err
}

// edits are what a container gets of a device.
func (p *plugin) edits(settings *Settings, claim *resourceapi.ResourceClaim, result resourceapi.DeviceRequestAllocationResult) (cdiEdits, error) {
	switch settings.PreparesFor {
	case "container":
		hook, err := newHook("--bound="+p.boundFile(string(claim.UID)), "--claim="+string(claim.UID))
		return cdiEdits{Env: environment(result), Hooks: hook}, err
	case "pod":
		// As a network interface: it is moved into one pod, and no container's environment tells of it.
		hook, err := newHook("--pod="+string(claim.Status.ReservedFor[0].UID), "--device="+result.Pool+"/"+result.Device)
		return cdiEdits{Hooks: hook}, err
	default:
		return cdiEdits{Env: environment(result)}, nil
	}
}

func prepareError(settings *Settings, result resourceapi.DeviceRequestAllocationResult) error {
	for _, key := range []string{"*", result.Pool + "/" + result.Device} {
		if message, failing := settings.PrepareErrors[key]; failing {
			return errors.New(message)
		}
	}
	return nil
}

// environment names the device, and the share of it, for each request: DEVICE_GPU=pool/device, SHARE_GPU=memory=10Gi.
func environment(result resourceapi.DeviceRequestAllocationResult) []string {
	request := notInVariable.ReplaceAllString(strings.ToUpper(result.Request), "_")
	variables := []string{fmt.Sprintf("DEVICE_%s=%s/%s", request, result.Pool, result.Device)}
	if result.ShareID != nil {
		var parts []string
		for name, amount := range result.ConsumedCapacity {
			parts = append(parts, fmt.Sprintf("%s=%s", name, amount.String()))
		}
		slices.Sort(parts)
		variables = append(variables,
			fmt.Sprintf("SHARE_%s=%s", request, strings.Join(parts, ",")),
			fmt.Sprintf("SHARE_ID_%s=%s", request, *result.ShareID))
	}
	return variables
}

// networkStatus tells of a network interface what such drivers tell; nil for other devices.
func networkStatus(settings *Settings, claim *resourceapi.ResourceClaim, index int) *applyresource.AllocatedDeviceStatusApplyConfiguration {
	result := claim.Status.Allocation.Devices.Results[index]
	if !isInterface(settings, result) {
		return nil
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s-%d", claim.UID, index)
	number := hash.Sum32()
	status := applyresource.AllocatedDeviceStatus().
		WithDriver(result.Driver).WithPool(result.Pool).WithDevice(result.Device).
		WithNetworkData(applyresource.NetworkDeviceData().
			WithInterfaceName(fmt.Sprintf("net%d", index+1)).
			WithIPs(fmt.Sprintf("192.168.%d.%d/16", byte(number>>8), byte(number)%254+1)).
			WithHardwareAddress(fmt.Sprintf("02:00:%02x:%02x:%02x:%02x",
				byte(number>>24), byte(number>>16), byte(number>>8), byte(number))))
	if result.ShareID != nil {
		status.WithShareID(string(*result.ShareID))
	}
	return status
}

func isInterface(settings *Settings, result resourceapi.DeviceRequestAllocationResult) bool {
	for _, slice := range settings.Resources.Pools[result.Pool].Slices {
		for _, device := range slice.Devices {
			if device.Name == result.Device {
				_, found := device.Attributes[interfaceAttribute]
				return found
			}
		}
	}
	return false
}

// UnprepareResourceClaims removes the CDI files.
func (p *plugin) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		end := p.record("unprepare", claim.Namespace+"/"+claim.Name, claim.UID)
		err := p.unprepare(ctx, claim.UID)
		end(err)
		results[claim.UID] = err
	}
	return results, nil
}

func (p *plugin) unprepare(ctx context.Context, uid types.UID) error {
	settings, _ := p.current()
	if err := sleep(ctx, between(settings.UnprepareSeconds)); err != nil {
		return err
	}
	if settings.UnprepareError != "" {
		return errors.New(settings.UnprepareError)
	}
	for _, file := range []string{p.boundFile(string(uid)), p.file(string(uid))} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// HandleError logs what happens in the background; nothing there is worth ending for.
func (p *plugin) HandleError(ctx context.Context, err error, message string) {
	klog.FromContext(ctx).Error(err, message)
}

func (p *plugin) file(uid string) string {
	return filepath.Join(p.cdi, p.name+"-"+uid+".json")
}

// boundFile names the container that a claim is kept for; beside the CDI files, which the runtime reads.
func (p *plugin) boundFile(uid string) string {
	return filepath.Join(p.cdi+"-bound", p.name+"-"+uid)
}

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}

// Of the Container Device Interface, as far as it is used here.
type cdiSpec struct {
	Version string      `json:"cdiVersion"`
	Kind    string      `json:"kind"`
	Devices []cdiDevice `json:"devices"`
}

type cdiDevice struct {
	Name  string   `json:"name"`
	Edits cdiEdits `json:"containerEdits"`
}

type cdiEdits struct {
	Env   []string  `json:"env,omitempty"`
	Hooks []cdiHook `json:"hooks,omitempty"`
}

type cdiHook struct {
	Name string   `json:"hookName"`
	Path string   `json:"path"`
	Args []string `json:"args"`
}

// write replaces the file at once: the container runtime may read it at any time.
func (s cdiSpec) write(path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	unfinished := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(unfinished, text, 0o644); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}
