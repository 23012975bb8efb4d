// SPDX-License-Identifier: Apache-2.0

// Package nodelock locks nodes by Leases, so that of several schedulers one at a time binds pods to a node.
package nodelock

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	// Duration is how long a lock holds if its holder does not release it: what a scheduler that is killed leaves behind.
	Duration = 15 * time.Second
	// margin is what must be left of a lock for a binding to begin. A binding that takes longer is not protected.
	margin = Duration / 2
	// retry is the pause before a lock that another scheduler holds is tried again.
	retry = 50 * time.Millisecond
	// releaseTimeout bounds the release, which the pod does not wait for.
	releaseTimeout = 5 * time.Second
	// prefix of the names of the Leases; the name of the node follows.
	prefix = "node-lock-"
)

// Name is the name of the Lease of a node. The name of a node can be as long as that of any object: of a longer one than the
// prefix leaves space for, a hash takes the place of the end.
func Name(node string) string {
	if len(prefix)+len(node) <= validation.DNS1123SubdomainMaxLength {
		return prefix + node
	}
	hash := fmt.Sprintf("-%x", sha256.Sum256([]byte(node)))[:17]
	begin := node[:validation.DNS1123SubdomainMaxLength-len(prefix)-len(hash)]
	return prefix + strings.TrimRight(begin, ".-") + hash
}

// Locks are the locks of the nodes as one scheduler has them. Safe for concurrent use.
type Locks struct {
	leases   coordinationclient.LeaseInterface
	identity string
	clock    clock.Clock

	mu    sync.Mutex
	nodes map[string]*nodeLock
}

// New returns locks whose Leases are in a namespace, for a scheduler with an identity.
func New(leases coordinationclient.LeaseInterface, identity string, c clock.Clock) *Locks {
	return &Locks{leases: leases, identity: identity, clock: c, nodes: map[string]*nodeLock{}}
}

// nodeLock is the lock of one node.
type nodeLock struct {
	// turn has one element: the user that takes it has the lock.
	turn chan struct{}
	// users hold the lock or wait for it. The last one that leaves releases the Lease. Guarded by Locks.mu.
	users int
	// lease is what this scheduler wrote, nil if it does not hold the Lease. until is when it expires.
	lease *coordinationv1.Lease
	until time.Time
	// version is that of another holder's Lease and seen when it was read first, the zero time if no other held it: clocks of
	// two machines are not compared.
	version string
	seen    time.Time
}

// Lock locks a node, and waits for others until the context ends. The function that it returns unlocks it.
func (l *Locks) Lock(ctx context.Context, node *corev1.Node) (unlock func(), err error) {
	n := l.join(node.Name)
	select {
	case <-n.turn:
	case <-ctx.Done():
		l.leave(ctx, node.Name, n, false)
		return nil, fmt.Errorf("node %s is locked by %s, this scheduler, for other pods: %w", node.Name, l.identity, context.Cause(ctx))
	}
	if err := l.hold(ctx, node, n); err != nil {
		l.leave(ctx, node.Name, n, true)
		return nil, err
	}
	var once sync.Once
	return func() { once.Do(func() { l.leave(ctx, node.Name, n, true) }) }, nil
}

// join counts a user of a lock.
func (l *Locks) join(node string) *nodeLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[node]
	if n == nil {
		n = &nodeLock{turn: make(chan struct{}, 1)}
		n.turn <- struct{}{}
		l.nodes[node] = n
	}
	n.users++
	return n
}

// leave ends the use of a lock. The Lease is kept for those that wait for their turn, and released by the last one.
func (l *Locks) leave(ctx context.Context, node string, n *nodeLock, turn bool) {
	l.mu.Lock()
	n.users--
	last := n.users == 0
	if last && n.seen.IsZero() {
		delete(l.nodes, node) // who joins now begins with a lock of its own, which waits for the Lease
	}
	l.mu.Unlock()
	if last && !turn {
		<-n.turn // who had it counted itself out before, and is about to put it back
		turn = true
	}
	if last && n.lease != nil {
		l.release(ctx, n)
	}
	if turn {
		n.turn <- struct{}{}
	}
}

// hold takes the Lease, or renews it if not enough of it is left.
func (l *Locks) hold(ctx context.Context, node *corev1.Node, n *nodeLock) error {
	if n.lease != nil && n.until.Sub(l.clock.Now()) > margin {
		return nil
	}
	var holder string
	err := wait.PollUntilContextCancel(ctx, retry, true, func(ctx context.Context) (bool, error) {
		held, other, err := l.try(ctx, node, n)
		holder = cmp.Or(other, holder) // the last request can end with the wait, and has no holder
		return held, err
	})
	if err != nil && ctx.Err() != nil && holder != "" {
		return fmt.Errorf("node %s is locked by %s: %w", node.Name, holder, context.Cause(ctx))
	} else if err != nil {
		return fmt.Errorf("lock node %s: %w", node.Name, err)
	}
	return nil
}

// try tries to take the Lease once, and returns who else holds it.
func (l *Locks) try(ctx context.Context, node *corev1.Node, n *nodeLock) (held bool, holder string, err error) {
	begun := l.clock.Now()
	lease, err := l.leases.Get(ctx, Name(node.Name), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: Name(node.Name)}}
		lease, err = l.leases.Create(ctx, l.claim(lease, node), metav1.CreateOptions{})
	case err != nil:
		return false, "", err
	case l.heldByOther(lease, n):
		return false, *lease.Spec.HolderIdentity, nil
	default:
		lease, err = l.leases.Update(ctx, l.claim(lease, node), metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return false, "another scheduler", nil
	} else if err != nil {
		return false, "", err
	}
	n.lease, n.until, n.seen = lease, begun.Add(Duration), time.Time{}
	return true, "", nil
}

// claim sets the holder of a Lease, and the node with which it is deleted. That can be another one than it was created for: the garbage
// collector would delete it while it is held.
func (l *Locks) claim(lease *coordinationv1.Lease, node *corev1.Node) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	now := metav1.NewMicroTime(l.clock.Now())
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &l.identity, ptr.To(int32(Duration/time.Second))
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
	return lease
}

// heldByOther reports whether another scheduler holds a Lease that has not expired: it has not changed for its duration since
// it was seen first.
func (l *Locks) heldByOther(lease *coordinationv1.Lease, n *nodeLock) bool {
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder == "" || holder == l.identity {
		return false
	}
	now := l.clock.Now()
	if n.seen.IsZero() || n.version != lease.ResourceVersion {
		n.version, n.seen = lease.ResourceVersion, now
	}
	return now.Sub(n.seen) < time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, int32(Duration/time.Second)))*time.Second
}

// release gives the Lease back. If that fails, the Lease expires.
func (l *Locks) release(ctx context.Context, n *nodeLock) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	lease := n.lease.DeepCopy()
	n.lease = nil
	lease.Spec.HolderIdentity = nil
	_, err := l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "Release the lock of a node; it expires", "lease", klog.KObj(lease))
	}
}
