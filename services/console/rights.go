// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

const (
	// rightsTTL is how long a review of rights counts. With followInterval and reconnectAfter, a change shows within 5 s.
	rightsTTL = 2 * time.Second
	// knownRights bounds the users and namespaces whose rights are cached.
	knownRights = 4096
	// reviewsAtATime is the number of reviews of one user at a time, and reviewTimeout is for all of them.
	reviewsAtATime = 4
	reviewTimeout  = 10 * time.Second
	// maxListings is the number of bits of rights.
	maxListings = 64
)

// kind is a kind of objects that the pages list.
type kind struct {
	object                   client.Object
	list                     client.ObjectList
	group, version, resource string
	// clusterScoped objects are in no namespace.
	clusterScoped bool
}

// kinds are all that the pages list. Another list is forbidden.
var kinds = []kind{
	{&corev1.Pod{}, &corev1.PodList{}, "", "v1", "pods", false},
	{&corev1.Node{}, &corev1.NodeList{}, "", "v1", "nodes", true},
	{&v1alpha1.CapacityMix{}, &v1alpha1.CapacityMixList{}, v1alpha1.GroupName, "v1alpha1", "capacitymixes", false},
	{&appsv1.ReplicaSet{}, &appsv1.ReplicaSetList{}, appsv1.GroupName, "v1", "replicasets", false},
	{&appsv1.Deployment{}, &appsv1.DeploymentList{}, appsv1.GroupName, "v1", "deployments", false},
	{&appsv1.StatefulSet{}, &appsv1.StatefulSetList{}, appsv1.GroupName, "v1", "statefulsets", false},
	{&batchv1.Job{}, &batchv1.JobList{}, batchv1.GroupName, "v1", "jobs", false},
	{&v1alpha1.ResourceLimit{}, &v1alpha1.ResourceLimitList{}, v1alpha1.GroupName, "v1alpha1", limitsResource, false},
	{&v1alpha1.DeploymentRecord{}, &v1alpha1.DeploymentRecordList{}, v1alpha1.GroupName, "v1alpha1", "deploymentrecords", false},
	{&v1alpha1.Environment{}, &v1alpha1.EnvironmentList{}, v1alpha1.GroupName, "v1alpha1", "environments", false},
	{&v1alpha1.SchedulingPolicy{}, &v1alpha1.SchedulingPolicyList{}, v1alpha1.GroupName, "v1alpha1", "schedulingpolicies", false},
	{&v1alpha1.Reservation{}, &v1alpha1.ReservationList{}, v1alpha1.GroupName, "v1alpha1", "reservations", false},
}

const limitsResource = "resourcelimits"

// listing is a list of a kind in a namespace, or in all with "".
type listing struct {
	kind      *kind
	namespace string
}

// listingsOf are the lists of the pages of a namespace, or of all with "". defaults are the namespaces with ResourceLimits for all, which
// the pages of a namespace list as well.
func listingsOf(namespace string, defaults []string) (all []listing) {
	for i := range kinds {
		k := &kinds[i]
		if k.clusterScoped {
			all = append(all, listing{k, ""})
			continue
		}
		all = append(all, listing{k, namespace})
		if k.resource != limitsResource || namespace == "" {
			continue
		}
		for _, other := range defaults {
			if other != namespace {
				all = append(all, listing{k, other})
			}
		}
	}
	return all
}

// rights are the lists that a user may do: bit i is that of listing i of a namespace.
type rights uint64

func (r rights) has(i int) bool { return r>>i&1 == 1 }

// of are the lists of all that the rights contain.
func (r rights) of(all []listing) map[listing]bool {
	granted := map[listing]bool{}
	for i, l := range all {
		if r.has(i) {
			granted[l] = true
		}
	}
	return granted
}

// reviewer reviews which lists users may do.
type reviewer struct {
	may      func(context.Context, user.Info, server.Access) (bool, error)
	defaults []string
	known    *utilcache.LRUExpireCache
	inFlight singleflight.Group
}

func newReviewer(may func(context.Context, user.Info, server.Access) (bool, error), defaults []string, c clock.PassiveClock) *reviewer {
	return &reviewer{may: may, defaults: defaults, known: utilcache.NewLRUExpireCacheWithClock(knownRights, c)}
}

// of returns the rights of a user in a namespace, or in all with "". All requests for the same share the reviews.
func (r *reviewer) of(ctx context.Context, u user.Info, namespace string) (rights, error) {
	id := string(identityOf(u)) + namespace
	if known, there := r.known.Get(id); there {
		return known.(rights), nil //nolint:forcetypeassert // nothing else is stored
	}
	answer := r.inFlight.DoChan(id, func() (any, error) {
		// Others wait for the answer as well, so it does not end with this request.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		found, err := r.review(ctx, u, namespace)
		if err == nil {
			r.known.Add(id, found, rightsTTL)
		}
		return found, err
	})
	select {
	case a := <-answer:
		if a.Err != nil {
			return 0, a.Err
		}
		return a.Val.(rights), nil //nolint:forcetypeassert // nothing else is returned
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (r *reviewer) review(ctx context.Context, u user.Info, namespace string) (rights, error) {
	all := listingsOf(namespace, r.defaults)
	allowed := make([]bool, len(all))
	reviews, ctx := errgroup.WithContext(ctx)
	reviews.SetLimit(reviewsAtATime)
	for i, l := range all {
		reviews.Go(func() (err error) {
			allowed[i], err = r.may(ctx, u, server.Access{
				Verb: "list", Group: l.kind.group, Version: l.kind.version, Resource: l.kind.resource, Namespace: l.namespace,
			})
			return err
		})
	}
	if err := reviews.Wait(); err != nil {
		return 0, fmt.Errorf("review what user %q may list: %w", u.GetName(), err)
	}
	var found rights
	for i, is := range allowed {
		if is {
			found |= 1 << i
		}
	}
	return found, nil
}

// identityOf identifies what the API server decides rights by.
func identityOf(u user.Info) []byte {
	text, err := json.Marshal([]any{u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra()})
	if err != nil {
		panic(err) // texts
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
