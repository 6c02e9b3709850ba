// One binary with etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kubelet and a DRA driver,
// chosen by the first argument, so that the tests judge by Kubernetes itself.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"dra-spawner.invalid/control-plane/driver"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          func() *cobra.Command { return apiserver.NewAPIServerCommand() },
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kube-controller-manager": func() *cobra.Command { return controllermanager.NewControllerManagerCommand() },
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"dra-driver":              driver.NewCommand,
		"dra-hook":                driver.NewHookCommand,
	}
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: control-plane etcd|kube-apiserver|kube-scheduler|kube-controller-manager|kubelet|dra-driver [flags]")
		os.Exit(2)
	}
	component := os.Args[1]
	if component == "etcd" {
		etcdmain.Main(os.Args[1:])
		return
	}
	command, known := commands[component]
	if !known {
		fmt.Fprintf(os.Stderr, "unknown component %q\n", component)
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command()))
}
