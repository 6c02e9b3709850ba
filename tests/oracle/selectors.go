package main

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

// Device is a device as selectors see it.
type Device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

// SelectorVerdict is what the API server and the scheduler make of a selector.
type SelectorVerdict struct {
	// Outcome is "invalid", "too complex", "accepted", "match", "no match", "error" or "panic".
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
	// Estimate is the highest cost that the API server expects. It refuses more than 1,000,000.
	Estimate uint64 `json:"estimate"`
	// Cost is what the evaluation counted up to its end.
	Cost    uint64  `json:"cost"`
	Seconds float64 `json:"seconds"`
}

// selectorVerdicts compiles each expression as the API server does for a new object, then evaluates it as the
// scheduler does, even when the API server would refuse it as too complex.
func selectorVerdicts(ctx context.Context, scenario Scenario) (verdicts []SelectorVerdict) {
	features := celFeatures(scenario.Features)
	for _, expression := range scenario.Expressions {
		verdicts = append(verdicts, selectorVerdict(ctx, features, expression, scenario))
	}
	return verdicts
}

func selectorVerdict(ctx context.Context, features cel.Features, expression string, scenario Scenario) (verdict SelectorVerdict) {
	defer func() {
		if problem := recover(); problem != nil {
			verdict = SelectorVerdict{Outcome: "panic", Error: fmt.Sprint(problem)}
		}
	}()
	envType := environment.NewExpressions
	compiled := cel.GetCompiler(features).CompileCELExpression(expression, cel.Options{EnvType: &envType})
	if compiled.Error != nil {
		return SelectorVerdict{Outcome: "invalid", Error: compiled.Error.Detail}
	}
	verdict.Estimate = compiled.MaxCost
	if compiled.MaxCost > resourceapi.CELSelectorExpressionMaxCost {
		verdict.Outcome = "too complex"
		return verdict
	}
	if scenario.CompileOnly {
		verdict.Outcome = "accepted"
		return verdict
	}
	start := time.Now()
	matches, details, err := compiled.DeviceMatches(ctx, celDevice(scenario.Device))
	verdict.Seconds = time.Since(start).Seconds()
	if details != nil && details.ActualCost() != nil {
		verdict.Cost = *details.ActualCost()
	}
	switch {
	case err != nil:
		verdict.Outcome, verdict.Error = "error", err.Error()
	case matches:
		verdict.Outcome = "match"
	default:
		verdict.Outcome = "no match"
	}
	return verdict
}
