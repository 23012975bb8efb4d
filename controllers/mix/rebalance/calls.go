// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// callTimeout bounds one call to the API server, for which everything else waits.
	callTimeout = 5 * time.Second
	// snapshotSilence is how long the API server may send nothing while it answers a list of a snapshot. The late answer of one that
	// stalled would look like any other one, and begin no grace.
	snapshotSilence = 2 * callTimeout
	// pageSize and maxPages bound the list of a workload's pods. With a larger one nothing is moved.
	pageSize, maxPages = 500, 40
	// maxUnselected is the number of pods of a namespace, at most, that are read for a group that no selector finds.
	maxUnselected = 2000
)

// calls read the API server as it is at this moment. Each call ends in time, because the worker decides for all tenants.
type calls struct {
	*Options
	// outage is called where the API server did not answer, and once it answers again.
	outage func(at time.Time)
	// away is set while the last call had no answer.
	away bool
	// metadata is nil in tests of decisions: then no mix is read.
	metadata metadata
}

// bounded makes a call that ends in time. Where the API server does not answer, the grace begins again: the cluster state may
// be old.
func (a *calls) bounded(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := call(ctx)
	a.noteOutage(ctx, err)
	return err
}

// write makes a call that changes an object of a tenant, and ends in time. An admission webhook may hold it, or a tenant's
// object may: only a connection that is cut off is an outage of the API server. If that does not answer, the next reading
// fails.
func (a *calls) write(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := call(ctx)
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) && isCutOff(err) && !isTimeout(err) {
		a.noteOutage(ctx, err)
	}
	return err
}

// evict requests the eviction of a pod as it was read. The client retries where the server answers when to; the next reconcile does
// that as well.
func (a *calls) evict(ctx context.Context, pod *corev1.Pod, policy *metav1.DeletionPropagation) error {
	return a.write(ctx, func(ctx context.Context) error {
		return a.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{PropagationPolicy: policy, Preconditions: &metav1.Preconditions{
				UID:             &pod.UID,
				ResourceVersion: &pod.ResourceVersion,
			}},
		})
	})
}

// noteOutage notes a call without an answer, and the first one after it that has one. The log names the call: in the status of each
// mix, it would be seen in other namespaces.
func (a *calls) noteOutage(ctx context.Context, err error) {
	lost := unanswered(err)
	if lost && !a.away {
		log.FromContext(ctx).Info("The API server did not answer: nothing is moved for some time", "error", err.Error())
	}
	if lost || a.away {
		a.outage(a.Clock.Now())
	}
	a.away = lost
}

// unanswered reports whether an error means that the API server did not answer, so that it may have carried the call out.
func unanswered(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		// A gateway in front of the API server got no answer either.
		return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) ||
			status.Status().Code == http.StatusBadGateway
	}
	return err != nil && (isTimeout(err) || isCutOff(err))
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// isCutOff reports whether the connection, or the stream of the call on it, ended before the whole answer had arrived.
func isCutOff(err error) bool {
	var stream http2.StreamError
	return errors.As(err, &stream) || errors.Is(err, io.ErrUnexpectedEOF) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		utilnet.IsHTTP2ConnectionLost(err)
}

// replica reads a replica. It returns an obstacle if that is not what was decided about.
func (a *calls) replica(ctx context.Context, known *clusterstate.Pod) (pod *corev1.Pod, err error) {
	err = a.bounded(ctx, func(ctx context.Context) (err error) {
		pod, err = a.Client.CoreV1().Pods(known.Namespace).Get(ctx, known.Name, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err) || err == nil && !rebalance.Unchanged(pod, known):
		return nil, rebalance.Changed(known)
	case err != nil:
		return nil, fmt.Errorf("read pod %s: %w", known.Name, err)
	}
	return pod, nil
}

// livePods lists the pods of the workload of a move as the API server has them at this moment.
func (a *calls) livePods(ctx context.Context, move rebalance.Action) (mine []corev1.Pod, err error) {
	g := &move.Of.Group
	selector, err := a.selectorOf(ctx, move)
	if err != nil {
		return nil, err
	}
	if n := a.State.Size(g.Key.Namespace); selector.Empty() && n > maxUnselected {
		return nil, rebalance.ReasonCapacityUnproven.Obstacle(rebalance.HoldRefused,
			"no selector finds the pods of the group, and the namespace has %d pods, more than %d", n, maxUnselected)
	}
	return a.listPods(ctx, g.Key.Namespace, selector, func(pod *corev1.Pod) bool { return a.State.Contains(g, pod) })
}

// listPods lists the pods of a namespace that a selector selects, those to be kept, as the API server has them at this moment.
func (a *calls) listPods(ctx context.Context, namespace string, by labels.Selector, keep func(*corev1.Pod) bool) (
	kept []corev1.Pod, err error,
) {
	options := metav1.ListOptions{LabelSelector: by.String(), Limit: pageSize}
	for range maxPages {
		var page *corev1.PodList
		err = a.bounded(ctx, func(ctx context.Context) (err error) { // each page, or a large namespace would be an outage
			page, err = a.Client.CoreV1().Pods(namespace).List(ctx, options)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the pods of the workload: %w", err)
		}
		for i := range page.Items {
			if keep(&page.Items[i]) {
				kept = append(kept, page.Items[i])
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return kept, nil
		}
	}
	return nil, errors.New("read the pods of the workload: there are too many")
}

// selectorOf selects all pods of the workload of a move, and as few others as may be.
func (a *calls) selectorOf(ctx context.Context, move rebalance.Action) (labels.Selector, error) {
	if move.Of.Mix == "" || rebalance.OfOneController(&move.Of.Group) {
		return move.Selector, nil
	}
	cm, err := mixNamed(ctx, a.Reader, move.Of.Group.Key.Namespace, move.Of.Mix)
	if err != nil || cm == nil {
		return move.Selector, err
	}
	return metav1.LabelSelectorAsSelector(cm.Spec.Selector.AsLabelSelector())
}

// bounds reads what limits the pods of a namespace.
func (a *calls) bounds(ctx context.Context, namespace string) (b rebalance.Bounds, err error) {
	var quotas *corev1.ResourceQuotaList
	var ranges *corev1.LimitRangeList
	core, all := a.Client.CoreV1(), metav1.ListOptions{Limit: pageSize}
	err = a.bounded(ctx, func(ctx context.Context) (err error) {
		if quotas, err = core.ResourceQuotas(namespace).List(ctx, all); err != nil {
			return err
		}
		ranges, err = core.LimitRanges(namespace).List(ctx, all)
		return err
	})
	if err != nil {
		return b, fmt.Errorf("read the quotas and limit ranges of the namespace: %w", err)
	}
	return rebalance.Bounds{Quotas: quotas.Items, Ranges: ranges.Items}, nil
}

// creatable returns an obstacle if the quotas or limit ranges of a namespace do not allow a pod in the place of another one, and
// names a quota that does not allow it beside that one. Bounds are those of the namespace, nil to read them.
func (a *calls) creatable(ctx context.Context, bounds *rebalance.Bounds, pod, next *corev1.Pod) (crowded string, err error) {
	if bounds == nil {
		now, err := a.bounds(ctx, pod.Namespace)
		if err != nil {
			return "", err
		}
		bounds = &now
	}
	if refusal := bounds.Creatable(next, pod); refusal.Reason != nil {
		return "", refusal.Reason.Obstacle(rebalance.HoldRefused, "%s", refusal.Message)
	}
	return bounds.Crowded(next), nil
}

// volumesOf returns the nodes that the volumes of a pod's claims can be attached
// to. The controller may list claims and volumes, for the replay, so it lists one.
func (a *calls) volumesOf(ctx context.Context, pod *corev1.Pod) (nodes []*corev1.NodeSelector, err error) {
	core := a.Client.CoreV1()
	named := func(name string) metav1.ListOptions {
		return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	}
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claims, err := core.PersistentVolumeClaims(pod.Namespace).List(ctx, named(source.ClaimName))
		if err != nil {
			return nil, fmt.Errorf("read claim %s: %w", source.ClaimName, err)
		}
		if len(claims.Items) == 0 || claims.Items[0].Spec.VolumeName == "" {
			continue
		}
		volumes, err := core.PersistentVolumes().List(ctx, named(claims.Items[0].Spec.VolumeName))
		if err != nil {
			return nil, fmt.Errorf("read the volume of claim %s: %w", source.ClaimName, err)
		}
		for i := range volumes.Items {
			if a := volumes.Items[i].Spec.NodeAffinity; a != nil {
				nodes = append(nodes, a.Required)
			}
		}
	}
	return nodes, nil
}

// metadata reads the metadata of an object as the API server has it at this moment, nil if there is none of that name.
type metadata func(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*metav1.PartialObjectMetadata, error)

// readMetadata returns metadata of an API server. The controller may list these kinds, for its watches, so it lists one.
func readMetadata(c client.Reader) metadata {
	return func(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{metav1.ObjectNameField: name})
		if err != nil || len(list.Items) == 0 {
			return nil, err
		}
		return &list.Items[0], nil
	}
}

// checkMix returns an obstacle if the mix is not the one any more that was decided by. A watch that broke may be behind by half a minute,
// in which replicas would move that have to stay.
func (a *calls) checkMix(ctx context.Context, e *rebalance.Entry, pod *corev1.Pod) error {
	if a.metadata == nil {
		return nil
	}
	what, err := "", error(nil)
	switch {
	case e.Mix != "":
		what, err = a.mixChanged(ctx, e)
	case e.Group.Governing.Source == governing.SourceController:
		what, err = a.annotationsChanged(ctx, e, pod)
	}
	switch {
	case err != nil:
		return fmt.Errorf("read the mix: %w", err)
	case what != "":
		return rebalance.ReasonStaleView.Obstacle(rebalance.HoldChanged, "%s, which the watch has not shown yet", what)
	}
	return nil
}

// mixChanged is what has happened to the CapacityMix of a workload, "" for nothing.
func (a *calls) mixChanged(ctx context.Context, e *rebalance.Entry) (what string, err error) {
	now, err := a.read(ctx, v1alpha1.SchemeGroupVersion.WithKind("CapacityMix"), e.Group.Key.Namespace, e.Mix)
	switch {
	case err != nil:
		return "", err
	case now == nil:
		return "CapacityMix " + e.Mix + " is gone", nil
	case (rebalance.Version{UID: now.UID, Generation: now.Generation}) != e.Spec:
		return "CapacityMix " + e.Mix + " was changed", nil
	}
	return "", nil
}

// annotationsChanged is what has happened to the mix in the annotations of a pod's controller, "" for nothing.
func (a *calls) annotationsChanged(ctx context.Context, e *rebalance.Entry, pod *corev1.Pod) (what string, err error) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return "", nil
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if kind.Group != appsv1.GroupName && kind.Group != batchv1.GroupName {
		// A tenant wrote the reference. The server of another group may be slow or gone, and would hold everyone's moves.
		return fmt.Sprintf("pod %s names its controller as a %s", pod.Name, kind.GroupKind()), nil
	}
	now, err := a.read(ctx, kind, pod.Namespace, ref.Name)
	switch {
	case err != nil:
		return "", err
	case now == nil || now.UID != ref.UID:
		return ref.Kind + " " + ref.Name + " is gone", nil
	case !e.Group.Governing.Same(a.State.MixUnder(pod, now)):
		return "the mix in the annotations of " + ref.Kind + " " + ref.Name + " was changed", nil
	}
	return "", nil
}

// read is metadata that ends in time.
func (a *calls) read(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (
	o *metav1.PartialObjectMetadata, err error,
) {
	err = a.bounded(ctx, func(ctx context.Context) error {
		o, err = a.metadata(ctx, kind, namespace, name)
		return err
	})
	return o, err
}
