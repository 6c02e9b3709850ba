// kube-scheduler's own tracker of ResourceSlices behind a pipe: one JSON state of slices and DeviceTaintRules per line
// in, the taints of each device out.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
)

// State is what a cluster has.
type State struct {
	Slices []*resourceapi.ResourceSlice `json:"slices"`
	Rules  []*Rule                      `json:"rules"`
}

// Taints are those of each device, by slice and device; sorted, as the tracker's own order is random.
type Taints map[string]map[string][]string

func taints(state State) (Taints, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var objects []runtime.Object
	for _, slice := range state.Slices {
		objects = append(objects, slice)
	}
	for _, rule := range state.Rules {
		objects = append(objects, rule)
	}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	opened, err := tracker.StartTracker(ctx, options(factory))
	if err != nil {
		return nil, err
	}
	defer opened.Stop()
	factory.Start(ctx.Done())
	select {
	case <-opened.HasSyncedChecker().Done():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	slices, err := opened.ListPatchedResourceSlices()
	if err != nil {
		return nil, err
	}
	found := Taints{}
	for _, slice := range slices {
		devices := map[string][]string{}
		for _, device := range slice.Spec.Devices {
			texts := []string{}
			for _, taint := range device.Taints {
				texts = append(texts, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
			}
			sort.Strings(texts)
			devices[device.Name] = texts
		}
		found[slice.Name] = devices
	}
	return found, nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	output := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var state State
		if err := json.Unmarshal(lines.Bytes(), &state); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		found, err := taints(state)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := output.Encode(found); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
