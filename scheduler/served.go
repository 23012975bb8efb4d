// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
)

const (
	// discoveryTimeout bounds a request for the kinds that are served.
	discoveryTimeout = 10 * time.Second
	// discoveryPause is the pause before the next request while the API server does not answer.
	discoveryPause = 2 * time.Second
)

// kinds are those that the scheduler watches because of a feature gate which is
// on by default, and that the oldest API servers Berth supports do not have. A
// kube-scheduler is never newer than its API server; ours may be, and would wait
// forever for the list of a kind that does not exist.
var kinds = []struct {
	gate                   featuregate.Feature
	groupVersion, resource string
}{
	{features.DRADeviceTaintRules, "resource.k8s.io/v1", "devicetaintrules"},
}

// lister is the part of a discovery client that is used here.
type lister interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// gates are the feature gates of the scheduler.
type gates interface {
	SetFromMap(values map[string]bool) error
	ExplicitlySet(name featuregate.Feature) bool
}

// unserved turns off the feature gates whose kind the API server does not have,
// unless a flag sets them. While it does not answer, they stay on, and the
// scheduler ends once it is known that they should not have been: the next start
// turns them off.
func unserved(ctx context.Context, client lister, of gates, pause time.Duration, exit func()) error {
	off, err := missing(client, of)
	if err == nil {
		return turnOff(ctx, of, off)
	}
	logger := klog.FromContext(ctx)
	logger.Error(err, "Discovery of the kinds that the API server serves; they are taken to be served meanwhile")
	go func() {
		// The result is not used: it is an error only if the context ends.
		_ = wait.PollUntilContextCancel(ctx, pause, false, func(context.Context) (bool, error) {
			off, err := missing(client, of)
			if err == nil && len(off) > 0 {
				logger.Error(nil, "The API server does not serve what these feature gates require, exiting", "featureGates", off)
				exit()
			}
			return err == nil, nil
		})
	}()
	return nil
}

func turnOff(ctx context.Context, of gates, names []string) error {
	values := map[string]bool{}
	for _, name := range names {
		values[name] = false
	}
	if len(values) == 0 {
		return nil
	}
	klog.FromContext(ctx).Info("The API server does not serve what these feature gates require, they are turned off", "featureGates", names)
	if err := of.SetFromMap(values); err != nil {
		return fmt.Errorf("turn off feature gates: %w", err)
	}
	return nil
}

// missing returns the feature gates whose kind is not served.
func missing(client lister, of gates) (names []string, err error) {
	for _, k := range kinds {
		if of.ExplicitlySet(k.gate) {
			continue
		}
		list, err := client.ServerResourcesForGroupVersion(k.groupVersion)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("discover %s: %w", k.groupVersion, err)
		}
		served := err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.resource })
		if !served {
			names = append(names, string(k.gate))
		}
	}
	return names, nil
}

// discoveryClient returns a client for the API server that the options name.
func discoveryClient(ctx context.Context, opts *options.Options) (lister, error) {
	kubeconfig := opts.Deprecated.Kubeconfig
	if opts.ConfigFile != "" {
		c, err := options.LoadConfigFromFile(klog.FromContext(ctx), opts.ConfigFile)
		if err != nil {
			return nil, err
		}
		kubeconfig = c.ClientConnection.Kubeconfig
	}
	config, err := clientcmd.BuildConfigFromFlags(opts.Master, kubeconfig)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Timeout = discoveryTimeout
	return discovery.NewDiscoveryClientForConfig(config)
}
