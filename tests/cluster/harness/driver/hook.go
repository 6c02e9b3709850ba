package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// Annotations of containers that containerd makes for a kubelet.
const (
	podAnnotation       = "io.kubernetes.cri.sandbox-uid"
	containerAnnotation = "io.kubernetes.cri.container-name"
)

// newHook lets this program run for each container with a device, before its process starts. An error ends the container.
func newHook(arguments ...string) ([]cdiHook, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []cdiHook{{Name: "createRuntime", Path: program, Args: append([]string{program, "dra-hook"}, arguments...)}}, nil
}

// container is the state of the OCI runtime that a hook reads.
type container struct {
	Bundle      string            `json:"bundle"`
	Annotations map[string]string `json:"annotations"`
}

// NewHookCommand returns the command that a container runtime runs for a container with a device of a driver that
// prepares for one pod or for one container.
func NewHookCommand() *cobra.Command {
	var bound, claim, pod, device string
	command := &cobra.Command{
		Use:           "dra-hook",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			var found container
			if err := json.NewDecoder(command.InOrStdin()).Decode(&found); err != nil {
				return err
			}
			if bound != "" {
				return keepFor(bound, claim, found)
			}
			return moveInto(pod, device, found)
		},
	}
	flags := command.Flags()
	flags.StringVar(&bound, "bound", "", "file with the container that the claim is kept for")
	flags.StringVar(&claim, "claim", "", "UID of the claim")
	flags.StringVar(&pod, "pod", "", "UID of the pod that gets the device")
	flags.StringVar(&device, "device", "", "the device, as pool/device")
	return command
}

// keepFor keeps a claim for the first container, and refuses all others.
func keepFor(bound, claim string, found container) error {
	own := found.Annotations[podAnnotation] + " " + found.Annotations[containerAnnotation]
	file, err := os.OpenFile(bound, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err == nil {
		defer file.Close()
		_, err = io.WriteString(file, own)
		return err
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	first, err := os.ReadFile(bound)
	if err != nil {
		return err
	}
	if string(first) != own {
		return fmt.Errorf("claim %s is already bound to pod and container %s", claim, first)
	}
	return nil
}

// moveInto puts a file for the device into the containers of one pod. Others get nothing, and no error.
func moveInto(pod, device string, found container) error {
	if found.Annotations[podAnnotation] != pod {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(found.Bundle, "config.json"))
	if err != nil {
		return err
	}
	var config struct {
		Root struct {
			Path string `json:"path"`
		} `json:"root"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	root := config.Root.Path
	if !filepath.IsAbs(root) {
		root = filepath.Join(found.Bundle, root)
	}
	file := filepath.Join(root, "device", device)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, nil, 0o644)
}
