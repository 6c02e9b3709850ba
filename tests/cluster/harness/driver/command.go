// Package driver is a DRA driver without hardware: it publishes the devices that it is told to publish, and does to
// containers, claims and the kubelet what the driver of a real device does.
package driver

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

type flags struct {
	name       string
	node       string
	kubeconfig string
	settings   string
	control    string
	kubelet    string
	cdi        string
}

// NewCommand returns the command that runs one driver on one node.
func NewCommand() *cobra.Command {
	var f flags
	command := &cobra.Command{
		Use:           "dra-driver",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return run(ctx, f)
		},
	}
	for name, value := range map[string]*string{
		"name":       &f.name,
		"node":       &f.node,
		"kubeconfig": &f.kubeconfig,
		"settings":   &f.settings,
		"control":    &f.control,
		"kubelet":    &f.kubelet,
		"cdi":        &f.cdi,
	} {
		command.Flags().StringVar(value, name, "", "see driver/command.go")
	}
	return command
}

func run(ctx context.Context, f flags) error {
	settings, err := readSettings(f.settings)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return err
	}
	// Tests are not for waiting on a rate limit.
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	sockets := filepath.Join(f.kubelet, "plugins", f.name)
	registry := filepath.Join(f.kubelet, "plugins_registry")
	for _, directory := range []string{sockets, registry, f.cdi, f.cdi + "-bound"} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	p := newPlugin(f.name, f.cdi, client, settings)
	p.helper, err = kubeletplugin.Start(ctx, reporting{plugin: p},
		kubeletplugin.DriverName(f.name),
		kubeletplugin.NodeName(f.node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(sockets),
		kubeletplugin.RegistrarDirectoryPath(registry),
		// As NVIDIA's and DRANET's: a claim does not wait for another one.
		kubeletplugin.Serialize(false),
	)
	if err != nil {
		return fmt.Errorf("start the plugin: %w", err)
	}
	defer p.helper.Stop()
	if err := p.publish(ctx); err != nil {
		return err
	}
	_ = os.Remove(f.control)
	listener, err := net.Listen("unix", f.control)
	if err != nil {
		return err
	}
	go serve(ctx, listener, p, f.settings)
	<-ctx.Done()
	return listener.Close()
}
