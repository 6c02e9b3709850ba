package main

import (
	"errors"

	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// chooseVariant has a scheduler with these features ask the variant of the allocator that visits pools in order; up to
// 1.37 the stable variant does not.
func chooseVariant(features structured.Features) {
	if features.ListTypeAttributes {
		structured.EnableAllocators("experimental")
	} else {
		structured.EnableAllocators("incubating")
	}
}

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
