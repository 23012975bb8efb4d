// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/builders"
)

// spotFor is what a chooser gives the next pod of a workload that has so many, and so many of them for spot.
func spotFor(all, spot int) capacity.Type {
	if spot < rule.Spot(all+1) {
		return capacity.Spot
	}
	return capacity.OnDemand
}

func (p *plane) admitterClient() kubernetes.Interface {
	p.t.Helper()
	config, err := p.ConfigFor(admitter, "system:masters")
	require.NoError(p.t, err)
	return kubernetes.NewForConfigOrDie(config)
}

// cached counts the live pods of a workload in a cache, as Spotalis does: it
// writes nothing, and does not know what it answered a moment ago.
type cached struct {
	pods   corelisters.PodLister
	owners appslisters.ReplicaSetLister
}

func (p *plane) fromCache(ctx context.Context) chooser {
	factory := informers.NewSharedInformerFactoryWithOptions(p.admitterClient(), 0, informers.WithNamespace(namespace))
	c := &cached{factory.Core().V1().Pods().Lister(), factory.Apps().V1().ReplicaSets().Lister()}
	factory.Start(ctx.Done())
	for what, synced := range factory.WaitForCacheSync(ctx.Done()) {
		require.True(p.t, synced, "cache of %s is not synced", what)
	}
	p.followed(ctx, c.pods)
	return c
}

// followed waits until a cache shows a pod that is created, and that it is gone:
// the first watch of an API server that has just started may end at once.
func (p *plane) followed(ctx context.Context, cache corelisters.PodLister) {
	p.t.Helper()
	probe := builders.Pod("probe", "probe", builders.SchedulerName("nobody"))
	pods := p.Client().CoreV1().Pods(namespace)
	seen := func(want bool) {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			_, err := cache.Pods(namespace).Get(probe.Name)
			return (err == nil) == want, nil
		})
		require.NoError(p.t, err)
	}
	_, err := pods.Create(ctx, probe, metav1.CreateOptions{})
	require.NoError(p.t, err)
	seen(true)
	require.NoError(p.t, pods.Delete(ctx, probe.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	seen(false)
}

func (c *cached) choose(_ context.Context, p *corev1.Pod) (capacity.Type, error) {
	owner := metav1.GetControllerOf(p)
	// The rule would stand in its annotations.
	if _, err := c.owners.ReplicaSets(namespace).Get(owner.Name); err != nil {
		return capacity.Unknown, err
	}
	pods, err := c.pods.Pods(namespace).List(labels.SelectorFromSet(builders.Labels(owner.Name)))
	if err != nil {
		return capacity.Unknown, err
	}
	spot := 0
	for _, live := range pods {
		if live.Spec.NodeSelector[cluster.CapacityTypeLabel] == capacity.Spot.String() {
			spot++
		}
	}
	return spotFor(len(pods), spot), nil
}

// counted keeps the counts of a workload in an object, as WorkloadSpread does in
// its status: one write for each pod. One replica, and one pod of a workload at
// a time: no write is without success.
type counted struct {
	client kubernetes.Interface

	mu     sync.Mutex
	groups map[string]*count
}

type count struct {
	sync.Mutex
	object *corev1.ConfigMap
}

func (p *plane) fromStatus(context.Context) chooser {
	return &counted{client: p.admitterClient(), groups: map[string]*count{}}
}

func (c *counted) group(name string) *count {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[name] == nil {
		c.groups[name] = &count{}
	}
	return c.groups[name]
}

func (c *counted) choose(ctx context.Context, p *corev1.Pod) (capacity.Type, error) {
	name := metav1.GetControllerOf(p).Name
	g := c.group(name)
	g.Lock()
	defer g.Unlock()
	maps := c.client.CoreV1().ConfigMaps(namespace)
	if g.object == nil {
		made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"all": "0", "spot": "0"}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = maps.Get(ctx, name, metav1.GetOptions{})
		}
		if err != nil {
			return capacity.Unknown, err
		}
		g.object = made
	}
	all, err := strconv.Atoi(g.object.Data["all"])
	if err != nil {
		return capacity.Unknown, err
	}
	spot, err := strconv.Atoi(g.object.Data["spot"])
	if err != nil {
		return capacity.Unknown, err
	}
	on := spotFor(all, spot)
	if on == capacity.Spot {
		spot++
	}
	next := g.object.DeepCopy()
	next.Data = map[string]string{"all": strconv.Itoa(all + 1), "spot": strconv.Itoa(spot)}
	if next, err = maps.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		g.object = nil // read it again
		return capacity.Unknown, err
	}
	g.object = next
	return on, nil
}
