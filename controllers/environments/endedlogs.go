// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/endedlogs"
	"berth.dev/berth/internal/environments/render"
)

const (
	// logReaders is how many logs are read at a time, readersOfOne how many of one environment: no tenant takes all of them. More that
	// end at once are read at the next reconciliation, if they still exist.
	logReaders, readersOfOne = 32, 8
	// logTimeout is how long the log of a container that ended may take. That of one that ends takes its grace period more, up to
	// longestEnd: grace periods are set by tenants.
	logTimeout, longestEnd = 30 * time.Second, 5 * time.Minute
)

// OpenLog begins to read the log of a pod.
type OpenLog func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error)

// endedLogs keeps the last lines of containers that end. The log of a container is gone with its pod, and the one before the last with
// the next restart.
type endedLogs struct {
	client  client.Client
	live    client.Reader
	open    OpenLog
	readers chan struct{}

	mu sync.Mutex
	// seen are the containers of each environment whose logs are kept or being read, of those that still exist.
	seen map[client.ObjectKey]map[string]bool
	// reading is how many logs of each environment are being read.
	reading map[client.ObjectKey]int
}

func newEndedLogs(c client.Client, live client.Reader, open OpenLog) *endedLogs {
	return &endedLogs{
		client: c, live: live, open: open, readers: make(chan struct{}, logReaders),
		seen: map[client.ObjectKey]map[string]bool{}, reading: map[client.ObjectKey]int{},
	}
}

// ending is a container whose log is to be kept.
type ending struct {
	pod       *corev1.Pod
	component string
	// container is its name, id what the runtime calls it.
	container, id string
	// previous means that it is the one before the last in its place, follow that it still runs and is about to end.
	previous, follow bool
}

// endings returns the containers of pods that ended, or that end with their pods.
func endings(pods []corev1.Pod) (list []ending) {
	for i := range pods {
		p := &pods[i]
		for j := range p.Status.ContainerStatuses {
			s := &p.Status.ContainerStatuses[j]
			e := ending{pod: p, component: p.Labels[v1alpha1.EnvironmentComponentLabel], container: s.Name}
			if t := s.LastTerminationState.Terminated; t != nil && t.ContainerID != "" {
				before := e
				before.id, before.previous = t.ContainerID, true
				list = append(list, before)
			}
			switch {
			case s.ContainerID == "":
			case s.State.Terminated != nil:
				e.id = s.ContainerID
				list = append(list, e)
			case s.State.Running != nil && p.DeletionTimestamp != nil:
				e.id, e.follow = s.ContainerID, true
				list = append(list, e)
			}
		}
	}
	return list
}

// observe keeps the logs of containers of an environment that were not kept yet, in the background: so many lines of each.
func (l *endedLogs) observe(ctx context.Context, env *v1alpha1.Environment, pods []corev1.Pod, lines int) {
	if lines == 0 {
		return
	}
	key := client.ObjectKeyFromObject(env)
	l.mu.Lock()
	defer l.mu.Unlock()
	before, now := l.seen[key], map[string]bool{}
	for _, e := range endings(pods) {
		if now[e.id] || before[e.id] {
			now[e.id] = true
			continue
		}
		if !l.take(key) {
			continue
		}
		now[e.id] = true
		env := env.DeepCopy() // the reconciliation goes on and changes it
		go func() {
			defer l.free(key)
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.timeout())
			defer cancel()
			if err := l.keep(within, env, &e, lines); err != nil {
				log.FromContext(ctx).Error(err, "Cannot keep the log of a container", "pod", e.pod.Name, "container", e.container)
				l.retry(key, e.id)
			}
		}()
	}
	l.seen[key] = now
}

// take takes a reader for an environment, if there is one. The lock is held.
func (l *endedLogs) take(env client.ObjectKey) bool {
	if l.reading[env] >= readersOfOne {
		return false
	}
	select {
	case l.readers <- struct{}{}:
		l.reading[env]++
		return true
	default:
		return false
	}
}

func (l *endedLogs) free(env client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	<-l.readers
	if l.reading[env]--; l.reading[env] == 0 {
		delete(l.reading, env)
	}
}

// retry has the log of a container read again at the next reconciliation.
func (l *endedLogs) retry(env client.ObjectKey, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen[env], id)
}

func (e *ending) timeout() time.Duration {
	if !e.follow {
		return logTimeout
	}
	return logTimeout + min(longestEnd, time.Duration(ptr.Deref(e.pod.DeletionGracePeriodSeconds, 0))*time.Second)
}

// forget frees what is known of an environment that is gone.
func (l *endedLogs) forget(env client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, env)
}

// keep reads a log to its end, and adds its last lines to the Secret.
func (l *endedLogs) keep(ctx context.Context, env *v1alpha1.Environment, e *ending, lines int) error {
	key := endedlogs.Key(e.component, e.id)
	secret := &corev1.Secret{}
	at := client.ObjectKey{Namespace: env.Status.Namespace, Name: endedlogs.Secret}
	if err := l.live.Get(ctx, at, secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Secret %s: %w", at, err)
	}
	if _, kept := secret.Data[key]; kept { // by an earlier leader
		return nil
	}
	body, err := l.open(ctx, e.pod.Namespace, e.pod.Name, &corev1.PodLogOptions{
		Container: e.container, Previous: e.previous, Follow: e.follow, Timestamps: true, TailLines: new(int64(lines)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) { // the pod or its container is gone
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the log of pod %s/%s: %w", e.pod.Namespace, e.pod.Name, err)
	}
	defer body.Close()
	tail := endedlogs.NewTail(lines)
	if _, err := io.Copy(tail, body); err != nil && !errors.Is(err, context.DeadlineExceeded) { // what was read by then is kept
		return fmt.Errorf("read the log of pod %s/%s: %w", e.pod.Namespace, e.pod.Name, err)
	}
	if len(tail.Bytes()) == 0 {
		return nil
	}
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	return l.store(write, env, at, key, tail.Bytes())
}

// store adds a log to the Secret. Several may be added at the same time.
func (l *endedLogs) store(ctx context.Context, env *v1alpha1.Environment, at client.ObjectKey, key string, text []byte) error {
	conflict := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultBackoff, conflict, func() error {
		secret := &corev1.Secret{}
		err := l.live.Get(ctx, at, secret)
		if apierrors.IsNotFound(err) {
			secret.ObjectMeta = metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, Labels: render.Labels(env)}
			secret.Type, secret.Data = corev1.SecretTypeOpaque, endedlogs.Add(nil, key, text)
			err := l.client.Create(ctx, secret, client.FieldOwner(FieldOwner))
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
				return nil // the environment is being deleted, and its logs with it
			}
			return err
		}
		if err != nil {
			return err
		}
		if !render.MadeFor(secret, env) {
			return fmt.Errorf("another Secret %s exists, which was not made for this environment", at)
		}
		after := secret.DeepCopy()
		after.Data = endedlogs.Add(secret.Data, key, text)
		patch := client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})
		return client.IgnoreNotFound(l.client.Patch(ctx, after, patch, client.FieldOwner(FieldOwner)))
	})
}
