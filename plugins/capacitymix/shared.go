// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// shared is what the profiles of one scheduler have in common.
type shared struct {
	args        *config.CapacityMixArgs
	classifier  *capacity.Classifier
	ledger      *ledger.Ledger
	mixes       *policy.Store
	controllers *controllers
	pods        corelisters.PodLister
	reports     *reports
	underway    *underway
	wakeups     *wakeups
	inquiry     *inquiry
	// opener opens gates, in the process that leads.
	opener *opener
	// unhurried resolves for what belongs to no profile, with the default of the first one.
	unhurried *policy.Resolver
	// shut is FencedBy's; nil where nothing is fenced.
	shut func() bool

	gate perscheduler.Gate
}

// join returns the shared part for a profile.
func (f *factory) join(ctx context.Context, handle framework.Handle, args *config.CapacityMixArgs) (*shared, error) {
	return f.schedulers.Join(ctx, handle,
		func() (*shared, error) { return newShared(ctx, handle, args, f.leads, f.shut) },
		func(sh *shared) error { return sh.agree(args) })
}

// agree refuses a profile that would have nodes or groups judged differently
// than another profile of the same scheduler: they share one ledger.
func (sh *shared) agree(args *config.CapacityMixArgs) error {
	for field, equal := range map[string]bool{
		"nodeRules":          equality.Semantic.DeepEqual(sh.args.NodeRules, args.NodeRules),
		"builtinNodeRules":   sh.args.BuiltinNodeRules == args.BuiltinNodeRules,
		"spreadSpotOver":     slices.Equal(sh.args.SpreadSpotOver, args.SpreadSpotOver),
		"annotationPrefixes": slices.Equal(sh.args.AnnotationPrefixes, args.AnnotationPrefixes),
		"capacityTypeLabel":  equality.Semantic.DeepEqual(sh.args.CapacityTypeLabel, args.CapacityTypeLabel),
	} {
		if !equal {
			return fmt.Errorf("pluginConfig.%s.args.%s: must be the same in all profiles of a scheduler", Name, field)
		}
	}
	return nil
}

func newShared(ctx context.Context, handle framework.Handle, args *config.CapacityMixArgs, leads <-chan struct{}, shut func() bool) (*shared, error) {
	classifier, err := arguments.Classifier(args)
	if err != nil {
		return nil, fmt.Errorf("pluginConfig.%s.args.%w", Name, err)
	}
	factory := handle.SharedInformerFactory()
	sh := &shared{
		args:        args,
		classifier:  classifier,
		ledger:      ledger.New(classifier, args.SpreadSpotOver),
		mixes:       policy.NewStore(),
		controllers: newControllers(factory, args.AnnotationPrefixes),
		pods:        factory.Core().V1().Pods().Lister(),
		reports:     newReports(handle.EventRecorder),
		underway:    newUnderway(maxBindings, bindingPatience),
		shut:        shut,
	}
	sh.wakeups = newWakeups(sh.pods, handle.Activate, klog.FromContext(ctx))
	if sh.opener, err = newOpener(ctx, sh, handle, leads); err != nil {
		return nil, fmt.Errorf("pluginConfig.%s.args.%w", Name, err)
	}
	sh.unhurried = &policy.Resolver{Prefixes: args.AnnotationPrefixes, Mixes: sh.mixes, Controllers: sh.controllers, Default: arguments.DefaultPolicy(args)}
	w := newWatcher(sh, klog.FromContext(ctx), sh.opener.activate)
	sh.inquiry = newInquiry(ctx, sh.controllers, handle.ClientSet(), sh.opener.activate)
	if config := handle.KubeConfig(); config != nil { // there is no API server in unit tests
		client, err := client.New(config)
		if err != nil {
			return nil, fmt.Errorf("client for %s: %w", mixResource.CRD(), err)
		}
		sh.inquiry.list = func(ctx context.Context, namespace string) ([]listed, error) {
			return listMixes(ctx, client, namespace)
		}
	}
	if leads != nil {
		go sh.opener.run(ctx, leads)
	}
	if err = w.watch(factory, handle.KubeConfig(), time.Duration(args.SyncTimeoutSeconds)*time.Second); err != nil {
		return nil, err
	}
	return sh, nil
}

// fenced comes before every write. In a process that must not write any more it
// waits for the end, which is near: an error would have the scheduler write that
// the pod could not be scheduled.
func (sh *shared) fenced(ctx context.Context) error {
	if sh.shut == nil || !sh.shut() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// wait returns once the ledger has seen the first list of everything that it
// is built from, and hears of new mixes.
func (sh *shared) wait(ctx context.Context) error {
	return sh.gate.Wait(ctx, "the ledger of plugin "+Name+" has not seen all nodes, pods and CapacityMixes")
}
