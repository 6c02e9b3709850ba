package main

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// chooseVariant does nothing: the features of a scenario decide alone.
func chooseVariant(structured.Features) {}

func celFeatures(features structured.Features) cel.Features {
	return cel.Features{EnableConsumableCapacity: features.ConsumableCapacity}
}

// isOnNode tells an error of one node from one that ends the whole attempt; this release has no such errors.
func isOnNode(error) bool {
	return false
}

// shareSet names shares that are taken.
type shareSet = sets.Set[structured.SharedDeviceID]

func shareOf(device structured.DeviceID, share *types.UID) structured.SharedDeviceID {
	return structured.MakeSharedDeviceID(device, share)
}

func newAllocator(ctx context.Context, scenario Scenario, state structured.AllocatedState, classes classLister, cache *cel.Cache) (structured.Allocator, error) {
	return structured.NewAllocator(ctx, scenario.Features, state, classes, scenario.Slices, cache)
}

func celDevice(device Device) cel.Device {
	return cel.Device(device)
}
