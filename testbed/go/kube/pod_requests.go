package main

import (
	"errors"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-helpers/resource"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/features"
)

type podAnswer struct {
	Requests v1.ResourceList `json:"requests"`
	Limits   v1.ResourceList `json:"limits"`
}

// runPodRequests answers each Pod with the sums the scheduler fits it by. The scheduler only ever sees pods that
// the apiserver has defaulted (a limit without a request is also the request): --defaults does that first.
func runPodRequests() int {
	switch {
	case len(os.Args) == 1:
		return runOracle(func(line []byte) (any, error) { return answerPod(line, false) })
	case len(os.Args) == 2 && os.Args[1] == "--defaults":
		return runOracle(func(line []byte) (any, error) { return answerPod(line, true) })
	default:
		fmt.Fprintln(os.Stderr, "usage: pod-requests [--defaults] <PODS, one JSON document a line")
		return 2
	}
}

func answerPod(line []byte, defaults bool) (any, error) {
	var pod *v1.Pod
	if err := json.Unmarshal(line, &pod); err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, errors.New("want a Pod as a JSON object")
	}
	if defaults {
		corev1.SetObjectDefaults_Pod(pod)
	}
	options := fitOptions()
	return podAnswer{Requests: resource.PodRequests(pod, options), Limits: resource.PodLimits(pod, options)}, nil
}

// fitOptions are those of NodeResourcesFit's PreFilter (computePodResourceRequest in the scheduler's
// plugins/noderesources/fit.go): for a pod not yet placed, only the gate for pod-level resources counts.
func fitOptions() resource.PodResourcesOptions {
	return resource.PodResourcesOptions{
		SkipPodLevelResources: !utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResources),
	}
}
