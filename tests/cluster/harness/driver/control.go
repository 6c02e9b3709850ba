package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// Settings are what the driver was told; they outlive it in a file.
type Settings struct {
	// Resources are published as they are; no pools withdraws all slices.
	Resources resourceslice.DriverResources `json:"resources"`
	// PrepareSeconds is the least and the longest time that a preparation takes.
	PrepareSeconds [2]float64 `json:"prepareSeconds"`
	// UnprepareSeconds is the same of the opposite.
	UnprepareSeconds [2]float64 `json:"unprepareSeconds"`
	// PrepareErrors are messages by "pool/device"; "*" means each device.
	PrepareErrors map[string]string `json:"prepareErrors"`
	// UnprepareError is a message with which each attempt fails; "" for none.
	UnprepareError string `json:"unprepareError"`
	// PreparesFor says whom a prepared claim serves: "" or "claim" each pod that joins it, "container" the first container
	// that names it, "pod" its first consumer at the preparation.
	PreparesFor string `json:"preparesFor"`
	// Unhealthy are messages by "pool/device".
	Unhealthy map[string]string `json:"unhealthy"`
}

// Call is one request of the kubelet about one claim.
type Call struct {
	Method string  `json:"method"`
	Claim  string  `json:"claim"`
	UID    string  `json:"uid"`
	Began  float64 `json:"began"`
	// Ended is 0 while the call goes on.
	Ended float64 `json:"ended"`
	Error string  `json:"error"`
}

type state struct {
	Registered bool `json:"registered"`
	// Prepared are the UIDs of claims with a CDI file.
	Prepared []string `json:"prepared"`
	Calls    []Call   `json:"calls"`
}

func readSettings(path string) (*Settings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var settings Settings
	if err := json.Unmarshal(text, &settings); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &settings, nil
}

// between returns a random duration of a range in seconds.
func between(limits [2]float64) time.Duration {
	return time.Duration((limits[0] + rand.Float64()*(limits[1]-limits[0])) * float64(time.Second))
}

// serve answers one JSON request per connection: "reload" or "state".
func serve(ctx context.Context, listener net.Listener, p *plugin, path string) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer connection.Close()
			var operation string
			answer := map[string]any{}
			err := json.NewDecoder(connection).Decode(&operation)
			switch {
			case err != nil:
			case operation == "reload":
				var settings *Settings
				if settings, err = readSettings(path); err == nil {
					err = p.apply(ctx, settings)
				}
			case operation == "state":
				answer["state"], err = p.state()
			default:
				err = fmt.Errorf("unknown operation %q", operation)
			}
			if err != nil {
				answer["error"] = err.Error()
			}
			_ = json.NewEncoder(connection).Encode(answer)
		}()
	}
}
