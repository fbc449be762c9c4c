// Command kube is a whole Kubernetes in one static program: etcd, the control plane, the node's programs and
// kubectl, chosen by the name it is called with (a link `kubelet`) or by its first argument (`kube kubelet …`).
// Two more, `quantity` and `pod-requests`, expose Kubernetes' own arithmetic to tests.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJob time zones, on machines without a zone database

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs read os.Args, as the commands of Kubernetes do, and return the exit status.
var programs = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-proxy":              component(proxy.NewProxyCommand),
	"kube-scheduler":          component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubectl":                 runKubectl,
	// The kubelet installs its own signal handler, so it must not be handed a context that already has one.
	"kubelet":      component(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"pod-requests": runPodRequests,
	"quantity":     runQuantity,
}

func main() {
	program, ok := programs[filepath.Base(os.Args[0])]
	if !ok && len(os.Args) > 1 {
		if program, ok = programs[os.Args[1]]; ok {
			os.Args = os.Args[1:]
		}
	}
	if !ok {
		fmt.Fprintf(os.Stderr, "usage: %s PROGRAM [ARGUMENT…], where PROGRAM is one of: %s\n",
			filepath.Base(os.Args[0]), strings.Join(programNames(), ", "))
		os.Exit(2)
	}
	os.Exit(program())
}

func programNames() []string {
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func component(newCommand func() *cobra.Command) func() int {
	return func() int { return cli.Run(newCommand()) }
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// runKubectl does what kubectl's own main does: verbosity before the command exists, errors in kubectl's words.
func runKubectl() int {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints and exits with the status that belongs to the error
	}
	return 0
}
