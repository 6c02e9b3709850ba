// kube-scheduler's own allocator behind a pipe: one JSON scenario per line in, one JSON verdict per line out, so that
// the Python allocator can be compared with it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Scenario is one attempt to schedule a pod. Objects are as the API server would hand them out: with defaults, and
// with canonical quantities.
type Scenario struct {
	Name     string                       `json:"name"`
	MaxSteps int                          `json:"maxSteps"`
	Features structured.Features          `json:"features"`
	Nodes    []*corev1.Node               `json:"nodes"`
	Slices   []*resourceapi.ResourceSlice `json:"slices"`
	Classes  []*resourceapi.DeviceClass   `json:"classes"`
	Existing []*resourceapi.ResourceClaim `json:"existing"`
	Claims   []*resourceapi.ResourceClaim `json:"claims"`
	// Repeat asks for timings instead of verdicts: so many attempts, each with an allocator of its own.
	Repeat int `json:"repeat"`
	// Expressions asks for verdicts of selectors on one device instead.
	Expressions []string `json:"expressions"`
	// CompileOnly asks for no more than whether the API server accepts them.
	CompileOnly bool `json:"compileOnly"`
	// Device is what the expressions are evaluated on.
	Device Device `json:"device"`
}

// Timing is how long one attempt took, from decoded objects on.
type Timing struct {
	// Gather is for the allocated state, from the claims.
	Gather float64 `json:"gatherSeconds"`
	// Loop is for making the allocator and asking it for every node.
	Loop float64 `json:"loopSeconds"`
	// Fits is the number of nodes where the claims fit.
	Fits int `json:"fits"`
}

// Verdict says what the allocator does on one node.
type Verdict struct {
	// Outcome is "fits", "none", "on-node", "fatal" or "panic".
	Outcome string                         `json:"outcome"`
	Error   string                         `json:"error,omitempty"`
	Results []resourceapi.AllocationResult `json:"results,omitempty"`
	Steps   int64                          `json:"steps"`
}

// Answer has one verdict for each node, in the scenario's order.
type Answer struct {
	Name     string    `json:"name"`
	Variant  string    `json:"variant"`
	Error    string    `json:"error,omitempty"`
	Verdicts []Verdict `json:"verdicts"`
	Timings  []Timing  `json:"timings,omitempty"`
	// Selectors has one answer for each expression.
	Selectors []SelectorVerdict `json:"selectors,omitempty"`
}

type classLister map[string]*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) {
	classes := make([]*resourceapi.DeviceClass, 0, len(l))
	for _, class := range l {
		classes = append(classes, class)
	}
	return classes, nil
}

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, found := l[name]; found {
		return class, nil
	}
	return nil, fmt.Errorf("device class %q not found", name)
}

// allocatedState gathers what is taken, as the scheduler's plugin does from the claims it watches.
func allocatedState(claims []*resourceapi.ResourceClaim, features structured.Features) structured.AllocatedState {
	devices := sets.New[structured.DeviceID]()
	shares := shareSet{}
	capacity := structured.NewConsumedCapacityCollection()
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if !features.ConsumableCapacity || result.ShareID == nil {
				devices.Insert(id)
				continue
			}
			shares.Insert(shareOf(id, result.ShareID))
			if result.ConsumedCapacity != nil {
				capacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return structured.AllocatedState{AllocatedDevices: devices, AllocatedSharedDeviceIDs: shares, AggregatedCapacity: capacity}
}

// stepLimit is a context that is cancelled by being asked too often: the allocator asks once a step, so a search that
// would take exponential time ends at a step that does not depend on the machine.
type stepLimit struct {
	context.Context
	left int
}

func (l *stepLimit) Err() error {
	if l.left <= 0 {
		return context.Canceled
	}
	l.left--
	return nil
}

func allocate(ctx context.Context, allocator structured.Allocator, node *corev1.Node, claims []*resourceapi.ResourceClaim) (verdict Verdict) {
	before := steps(allocator)
	defer func() {
		if problem := recover(); problem != nil {
			verdict = Verdict{Outcome: "panic", Error: fmt.Sprint(problem)}
		}
		verdict.Steps = steps(allocator) - before
	}()
	results, err := allocator.Allocate(ctx, node, claims)
	switch {
	case isOnNode(err):
		return Verdict{Outcome: "on-node", Error: err.Error()}
	case err != nil:
		return Verdict{Outcome: "fatal", Error: err.Error()}
	case results == nil:
		return Verdict{Outcome: "none"}
	default:
		return Verdict{Outcome: "fits", Results: results}
	}
}

// steps reads the number of search steps, which only the internal type offers; zero if it does not count them.
func steps(allocator structured.Allocator) int64 {
	method := reflect.ValueOf(allocator).MethodByName("GetStats")
	if !method.IsValid() {
		return 0
	}
	stats := reflect.Indirect(method.Call(nil)[0])
	if !stats.IsValid() {
		return 0
	}
	return stats.FieldByName("NumAllocateOneInvocations").Int()
}

func variant(allocator structured.Allocator) string {
	method := reflect.ValueOf(allocator).MethodByName("Channel")
	if !method.IsValid() {
		return fmt.Sprintf("%T", allocator)
	}
	return fmt.Sprint(method.Call(nil)[0].Interface())
}

// decode reads a scenario as the scheduler would get it: the API server applies defaults, and prints quantities in
// canonical form before anybody else sees them. (Others share a pointer inside the allocator and corrupt one another.)
func decode(line []byte) (scenario Scenario, err error) {
	var asWritten Scenario
	if err := json.Unmarshal(line, &asWritten); err != nil {
		return scenario, err
	}
	for _, claim := range asWritten.Claims {
		setDefaults(claim)
	}
	canonical, err := json.Marshal(asWritten)
	if err != nil {
		return scenario, err
	}
	return scenario, json.Unmarshal(canonical, &scenario)
}

func setDefaults(claim *resourceapi.ResourceClaim) {
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if exactly := request.Exactly; exactly != nil {
			exactly.AllocationMode, exactly.Count = countDefaults(exactly.AllocationMode, exactly.Count)
			setOperators(exactly.Tolerations)
		}
		for j := range request.FirstAvailable {
			alternative := &request.FirstAvailable[j]
			alternative.AllocationMode, alternative.Count = countDefaults(alternative.AllocationMode, alternative.Count)
			setOperators(alternative.Tolerations)
		}
	}
}

func countDefaults(mode resourceapi.DeviceAllocationMode, count int64) (resourceapi.DeviceAllocationMode, int64) {
	if mode == "" {
		mode = resourceapi.DeviceAllocationModeExactCount
	}
	if mode == resourceapi.DeviceAllocationModeExactCount && count == 0 {
		count = 1
	}
	return mode, count
}

func setOperators(tolerations []resourceapi.DeviceToleration) {
	for i := range tolerations {
		if tolerations[i].Operator == "" {
			tolerations[i].Operator = resourceapi.DeviceTolerationOpEqual
		}
	}
}

func answer(ctx context.Context, line []byte) Answer {
	scenario, err := decode(line)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	if len(scenario.Expressions) > 0 {
		return Answer{Name: scenario.Name, Selectors: selectorVerdicts(ctx, scenario)}
	}
	chooseVariant(scenario.Features)
	classes := classLister{}
	for _, class := range scenario.Classes {
		classes[class.Name] = class
	}
	if scenario.Repeat > 0 {
		return measure(ctx, scenario, classes)
	}
	cache := newCache(scenario.Features)
	state := allocatedState(scenario.Existing, scenario.Features)
	allocator, err := newAllocator(ctx, scenario, state, classes, cache)
	if err != nil {
		return Answer{Name: scenario.Name, Error: err.Error()}
	}
	result := Answer{Name: scenario.Name, Variant: variant(allocator)}
	for _, node := range scenario.Nodes {
		limited := &stepLimit{Context: ctx, left: scenario.MaxSteps}
		result.Verdicts = append(result.Verdicts, allocate(limited, allocator, node, scenario.Claims))
	}
	return result
}

func newCache(features structured.Features) *cel.Cache {
	return cel.NewCache(10, celFeatures(features))
}

// measure times attempts on all nodes, one after the other, as the scheduler's plugin makes them in one goroutine.
func measure(ctx context.Context, scenario Scenario, classes classLister) Answer {
	result := Answer{Name: scenario.Name}
	cache := newCache(scenario.Features)
	for range scenario.Repeat {
		var timing Timing
		start := time.Now()
		state := allocatedState(scenario.Existing, scenario.Features)
		timing.Gather = time.Since(start).Seconds()
		start = time.Now()
		allocator, err := newAllocator(ctx, scenario, state, classes, cache)
		if err != nil {
			return Answer{Name: scenario.Name, Error: err.Error()}
		}
		result.Variant = variant(allocator)
		for _, node := range scenario.Nodes {
			results, err := allocator.Allocate(ctx, node, scenario.Claims)
			if err != nil && !isOnNode(err) {
				return Answer{Name: scenario.Name, Error: err.Error()}
			}
			if results != nil {
				timing.Fits++
			}
		}
		timing.Loop = time.Since(start).Seconds()
		result.Timings = append(result.Timings, timing)
	}
	return result
}

func main() {
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(output)
	for {
		line, err := input.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			if err := encoder.Encode(answer(context.Background(), line)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			output.Flush()
		}
		if err != nil {
			return
		}
	}
}
