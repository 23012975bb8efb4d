// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"berth.dev/berth/apis/v1alpha1"
)

// Prefixes of the keys that are recorded. Nodes are minions there.
const (
	Pods    = "/registry/pods/"
	Nodes   = "/registry/minions/"
	Budgets = "/registry/poddisruptionbudgets/"
	Mixes   = "/registry/" + v1alpha1.GroupName + "/capacitymixes/"

	Records      = "/registry/" + v1alpha1.GroupName + "/deploymentrecords/"
	Environments = "/registry/" + v1alpha1.GroupName + "/environments/"

	replicaSets  = "/registry/replicasets/"
	statefulSets = "/registry/statefulsets/"

	limits = "/registry/" + v1alpha1.GroupName + "/resourcelimits/"
)

var prefixes = slices.Concat([]string{Pods, Nodes, Budgets, Mixes, Records, Environments, replicaSets, statefulSets, limits}, childPrefixes)

// requestTimeout bounds a request to etcd.
const requestTimeout = 10 * time.Second

// Recorder records the changes from etcd itself: the API server's watch cache is a part of what is judged.
type Recorder struct {
	client *clientv3.Client
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	changes []Change
	// seen is the last revision, by prefix.
	seen map[string]int64
	err  error
}

// NewRecorder begins to record. The first changes are the objects that there are.
func NewRecorder(ctx context.Context, endpoint string) (*Recorder, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: requestTimeout})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &Recorder{client: client, cancel: cancel, seen: map[string]int64{}}
	first := int64(0) // all prefixes begin at one revision
	for _, prefix := range prefixes {
		response, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(first))
		if err != nil {
			cancel()
			return nil, err
		}
		if first == 0 {
			first = response.Header.Revision
		}
		for _, kv := range response.Kvs {
			r.add(prefix, kv.ModRevision, string(kv.Key), kv.Value, true)
		}
		r.ended.Go(func() { r.watch(ctx, prefix, first+1) })
	}
	return r, nil
}

// watch records changes until the recorder is closed. The client goes on after etcd was away.
func (r *Recorder) watch(ctx context.Context, prefix string, from int64) {
	for response := range r.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if err := response.Err(); err != nil {
			r.fail(fmt.Errorf("changes of %s are missing: %w", prefix, err))
			return
		}
		for _, e := range response.Events {
			value := e.Kv.Value
			if e.Type == clientv3.EventTypeDelete {
				value = nil
			}
			r.add(prefix, e.Kv.ModRevision, string(e.Kv.Key), value, false)
		}
	}
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = cmp.Or(r.err, err)
}

// add records a change; the value of what was deleted is nil.
func (r *Recorder) add(prefix string, revision int64, key string, value []byte, listed bool) {
	c := Change{Revision: revision, Key: key, At: time.Now(), Listed: listed}
	if value != nil {
		if err := c.decode(prefix, value); err != nil {
			r.fail(fmt.Errorf("revision %d of %s: %w", revision, key, err))
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if value == nil || !c.empty() {
		r.changes = append(r.changes, c)
	}
	r.seen[prefix] = max(r.seen[prefix], revision) // a list is in the order of keys
}

// inOrder orders changes by revision. Of what there was when the recording began, pods come last: a status that was written later must not
// let a pod be without its mix.
func inOrder(a, b Change) int {
	last := func(c *Change) int {
		switch {
		case !c.Listed:
			return 2
		case c.Pod != nil:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(last(&a), last(&b)), cmp.Compare(a.Revision, b.Revision))
}

// decode reads an object as the API server stores it: custom resources in JSON, others in protobuf.
func (c *Change) decode(prefix string, value []byte) error {
	o, err := object(prefix, value)
	c.Child = childOf(o)
	switch o := o.(type) {
	case *v1alpha1.CapacityMix:
		c.Mix = o
	case *v1alpha1.DeploymentRecord:
		c.Record = o
	case *v1alpha1.Environment:
		c.Environment = o
	case *corev1.Pod:
		c.Pod = o
	case *corev1.Node:
		c.Node = o
	case *policyv1.PodDisruptionBudget:
		c.Budget = o
	case *appsv1.ReplicaSet:
		c.Owner = ownerOf(o, o.Spec.Replicas)
	case *appsv1.StatefulSet:
		c.Owner = ownerOf(o, o.Spec.Replicas)
	}
	return err
}

func object(prefix string, value []byte) (o runtime.Object, err error) {
	switch prefix {
	case Mixes:
		o = &v1alpha1.CapacityMix{}
	case Records:
		o = &v1alpha1.DeploymentRecord{}
	case Environments:
		o = &v1alpha1.Environment{}
	case limits:
		o = &v1alpha1.ResourceLimit{}
	default:
		o, _, err = scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
		return o, err
	}
	return o, json.Unmarshal(value, o)
}

func ownerOf(o metav1.Object, replicas *int32) *Owner {
	owner := &Owner{UID: o.GetUID(), Annotations: map[string]string{}}
	if replicas != nil {
		owner.Replicas = *replicas
	}
	for _, key := range []string{v1alpha1.SpotPercentAnnotation, v1alpha1.MinOnDemandAnnotation} {
		if value, there := o.GetAnnotations()[key]; there {
			owner.Annotations[key] = value
		}
	}
	return owner
}

// Close ends the recording with all that is in etcd now, and returns the changes by revision.
func (r *Recorder) Close(ctx context.Context) ([]Change, error) {
	for _, prefix := range prefixes {
		if err := r.reach(ctx, prefix); err != nil {
			return nil, err
		}
	}
	r.cancel()
	r.ended.Wait()
	_ = r.client.Close() // it was canceled
	slices.SortStableFunc(r.changes, inOrder)
	return r.changes, r.err
}

// reach waits for the newest change of a prefix.
func (r *Recorder) reach(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	newest, err := r.client.Get(ctx, prefix, append(clientv3.WithLastRev(), clientv3.WithPrefix(), clientv3.WithKeysOnly())...)
	if err != nil || len(newest.Kvs) == 0 {
		return err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		r.mu.Lock()
		reached := r.seen[prefix] >= newest.Kvs[0].ModRevision || r.err != nil
		r.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("revision %d of %s was not recorded: %w", newest.Kvs[0].ModRevision, prefix, ctx.Err())
		}
	}
}
