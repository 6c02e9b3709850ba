package main

import (
	"context"
	"errors"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// chooseVariant does nothing: all variants visit pools in order, so the features of a scenario decide alone.
func chooseVariant(structured.Features) {}

func celFeatures(features structured.Features) cel.Features {
	return cel.Features{
		EnableConsumableCapacity: features.ConsumableCapacity,
		EnableListTypeAttributes: features.ListTypeAttributes,
	}
}

// isOnNode tells an error of one node from one that ends the whole attempt.
func isOnNode(err error) bool {
	return errors.Is(err, structured.ErrFailedAllocationOnNode)
}

// shareSet names devices of which shares are taken.
type shareSet = sets.Set[structured.DeviceID]

func shareOf(device structured.DeviceID, _ *types.UID) structured.DeviceID {
	return device
}

func newAllocator(ctx context.Context, scenario Scenario, state structured.AllocatedState, classes classLister, cache *cel.Cache) (structured.Allocator, error) {
	slices := make([]*draapi.ResourceSlice, 0, len(scenario.Slices))
	for _, slice := range scenario.Slices {
		converted, err := convert(slice)
		if err != nil {
			return nil, err
		}
		slices = append(slices, converted)
	}
	return structured.NewAllocator(ctx, scenario.Features, state, classes, slices, cache)
}

func convert(slice *resourceapi.ResourceSlice) (*draapi.ResourceSlice, error) {
	var converted draapi.ResourceSlice
	if err := draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(slice, &converted, nil); err != nil {
		return nil, err
	}
	return &converted, nil
}

func celDevice(device Device) cel.Device {
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver:  device.Driver,
		Devices: []resourceapi.Device{{Name: "device", Attributes: device.Attributes, Capacity: device.Capacity}},
	}}
	converted, err := convert(slice)
	if err != nil {
		panic(err)
	}
	found := converted.Spec.Devices[0]
	return cel.Device{
		Driver:                   device.Driver,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
		LookupUniqueString:       converted.LookupUniqueString,
		Attributes:               found.Attributes,
		Capacity:                 found.Capacity,
	}
}
