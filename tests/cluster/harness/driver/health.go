package driver

import (
	"context"
	"time"
)

// The kubelet takes a device of which it hears nothing for 30 seconds for unknown.
const healthInterval = 5 * time.Second

// deviceHealth is what a driver says of a device; each release of the plugin library has its own type for it.
type deviceHealth struct {
	pool, device string
	// message is empty for a healthy device.
	message string
}

// watchHealth sends the health of all devices: at once, on each change, and regularly.
func (p *plugin) watchHealth(ctx context.Context, send func([]deviceHealth) error) error {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for {
		settings, changed := p.current()
		if err := send(healthOf(settings)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-ticker.C:
		}
	}
}

func healthOf(settings *Settings) []deviceHealth {
	var found []deviceHealth
	for name, pool := range settings.Resources.Pools {
		for _, slice := range pool.Slices {
			for _, device := range slice.Devices {
				found = append(found, deviceHealth{name, device.Name, settings.Unhealthy[name+"/"+device.Name]})
			}
		}
	}
	return found
}
