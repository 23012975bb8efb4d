// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/hash"
	"berth.dev/berth/test/robustness/history"
)

const recordUID, environmentUID types.UID = "record", "environment"

// record declares a record with functions f0, f1 and so on, which reports them.
func (s *stage) record(generation int64, functions int, image string, changes ...func(*v1alpha1.DeploymentRecord)) {
	r := &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: recordUID, Generation: generation}}
	for i := range functions {
		key := fmt.Sprint("f", i)
		r.Spec.DeploymentUnit.Functions = append(r.Spec.DeploymentUnit.Functions, v1alpha1.FunctionSpec{FunctionKey: key, Image: image})
		r.Status.Functions = append(r.Status.Functions, v1alpha1.FunctionStatus{FunctionKey: key})
	}
	for _, change := range changes {
		change(r)
	}
	s.write(history.Change{Key: history.Records + "shop/cart", Record: r})
}

func unreported(r *v1alpha1.DeploymentRecord) { r.Status.Functions = nil }

func leaving(r *v1alpha1.DeploymentRecord) { r.DeletionTimestamp = new(metav1.Now()) }

func (s *stage) environment(frontend string) {
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "test", UID: environmentUID}}
	e.Spec.Stack.Frontend = &v1alpha1.FrontendComponent{Container: v1alpha1.EnvironmentContainer{Image: frontend}, Replicas: new(int32(2))}
	s.write(history.Change{Key: history.Environments + "shop/test", Environment: e})
}

// functionOf is a child of a function of the record.
func functionOf(function, kind, name, image string) *history.Child {
	c := &history.Child{Product: "DeploymentRecord shop/cart", ProductUID: recordUID, Kind: kind, Name: name}
	c.Role = hash.Of([]byte(function), hash.Label)
	if kind == "Deployment" {
		c.Image, c.Replicas = image, 1
	}
	return c
}

func (s *stage) child(c *history.Child) {
	s.write(history.Change{Key: "/registry/" + c.Kind + "/shop/" + c.Name, Child: c})
}

func (s *stage) childGone(kind, name string) {
	s.write(history.Change{Key: "/registry/" + kind + "/shop/" + name})
}

// function makes what a function is, function name one of its names.
func (s *stage) function(function, name, image string) {
	s.child(functionOf(function, "Deployment", name, image))
	s.child(functionOf(function, "Service", name, image))
}

func (s *stage) functionGone(name string) {
	s.childGone("Deployment", name)
	s.childGone("Service", name)
}

func (s *stage) rest() {
	began := s.now.Add(time.Millisecond)
	s.later(time.Second)
	s.h.Steps = append(s.h.Steps, history.Step{Rest: true, Began: began, Ended: s.now})
}

func TestRecordsKept(t *testing.T) {
	frontend := func(image string, replicas int32, kind string) *history.Child {
		return &history.Child{Product: "Environment shop/test", Kind: kind, Name: "frontend", Role: "frontend", Image: image, Replicas: replicas}
	}
	for name, c := range map[string]struct {
		write      func(*stage)
		violations []string
	}{
		"there is what a record declares, whatever it declared before": {func(s *stage) {
			s.record(1, 2, "a")
			s.function("f0", "cart-fn-0", "a")
			s.function("f1", "cart-fn-1", "a")
			s.rest()
			s.record(2, 1, "b")
			s.function("f0", "cart-fn-0", "b")
			s.functionGone("cart-fn-1")
			s.rest()
			s.record(2, 1, "b", leaving)
			s.functionGone("cart-fn-0")
			s.write(history.Change{Key: history.Records + "shop/cart"})
			s.rest()
		}, nil},
		"a function is missing": {func(s *stage) {
			s.record(1, 2, "a")
			s.function("f0", "cart-fn-0", "a")
			s.rest()
		}, []string{"at rest: DeploymentRecord shop/cart declares " + hash.Of([]byte("f1"), hash.Label) + ": Deployment false, Service false"}},
		"a Service is missing": {func(s *stage) {
			s.record(1, 1, "a")
			s.child(functionOf("f0", "Deployment", "cart", "a"))
			s.rest()
		}, []string{"at rest: DeploymentRecord shop/cart declares " + hash.Of([]byte("f0"), hash.Label) + ": Deployment true, Service false"}},
		"a function has the image of before": {func(s *stage) {
			s.record(1, 1, "a")
			s.function("f0", "cart", "a")
			s.record(2, 1, "b")
			s.rest()
		}, []string{"at rest: DeploymentRecord shop/cart declares " + hash.Of([]byte("f0"), hash.Label) + " with b and 1, and there is a and 1"}},
		"a function stays that is not declared any more": {func(s *stage) {
			s.record(1, 2, "a")
			s.function("f0", "cart-fn-0", "a")
			s.function("f1", "cart-fn-1", "a")
			s.record(2, 1, "a")
			s.rest()
		}, []string{
			"at rest: DeploymentRecord shop/cart has Deployment cart-fn-1, and does not declare it",
			"at rest: DeploymentRecord shop/cart has Service cart-fn-1, and does not declare it",
		}},
		"objects stay whose record is gone": {func(s *stage) {
			s.child(&history.Child{Product: "DeploymentRecord shop/cart", ProductUID: "another", Name: "settings"})
			s.record(1, 0, "a")
			s.rest()
		}, []string{"at rest:  settings of DeploymentRecord shop/cart is there, which is not"}},
		"a function has two objects for a while": {func(s *stage) {
			s.record(1, 1, "a")
			s.function("f0", "cart", "a")
			s.child(functionOf("f0", "Service", "cart-fn-0", ""))
			s.childGone("Service", "cart-fn-0")
			s.rest()
		}, []string{"revision 4: DeploymentRecord shop/cart has a second Service for one part: cart and cart-fn-0"}},
		"a function gets another name before it is reported": {func(s *stage) {
			s.record(1, 1, "a", unreported)
			s.function("f0", "cart", "a")
			s.record(2, 2, "a", unreported)
			s.function("f0", "cart-fn-0", "a")
			s.function("f1", "cart-fn-1", "a")
			s.functionGone("cart")
			s.record(2, 2, "a")
			s.rest()
		}, nil},
		"a function is lost for a while": {func(s *stage) {
			s.record(1, 1, "a")
			s.function("f0", "cart", "a")
			s.later(view)
			s.record(1, 1, "a") // its status
			s.childGone("Service", "cart")
			s.function("f0", "cart", "a")
			s.rest()
		}, []string{"revision 5: Service cart of DeploymentRecord shop/cart is gone, and declared"}},
		"an environment has the replicas of before": {func(s *stage) {
			s.environment("a")
			s.child(frontend("a", 1, "Deployment"))
			s.child(frontend("", 0, "Service"))
			s.rest()
		}, []string{"at rest: Environment shop/test declares frontend with a and 2, and there is a and 1"}},
		"an environment is there, and then gone": {func(s *stage) {
			s.environment("a")
			s.child(frontend("a", 2, "Deployment"))
			s.child(frontend("", 0, "Service"))
			s.rest()
			s.write(history.Change{Key: history.Environments + "shop/test"})
			s.childGone("Deployment", "frontend")
			s.childGone("Service", "frontend")
			s.rest()
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{now: time.Unix(1e9, 0)}
			c.write(s)
			v := RecordsKept(&s.h)
			assert.NotZero(t, v.Facts)
			assert.Equal(t, c.violations, v.Violations)
		})
	}
}

// A record that declares any functions, one after the other, has no violation where each is followed, and one where a change is not.
func TestAChangeThatIsNotFollowedIsAViolation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, there := &stage{now: time.Unix(1e9, 0)}, 0
		follow := func(generation, n int, image string) {
			s.record(int64(generation), n, image)
			for i := range max(n, there) {
				if name := fmt.Sprint("cart-fn-", i); i < n {
					s.function(fmt.Sprint("f", i), name, image)
				} else {
					s.functionGone(name)
				}
			}
			there = n
		}
		changes := rapid.IntRange(1, 5).Draw(t, "changes")
		for i := range changes {
			s.later(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			follow(i, rapid.IntRange(1, 4).Draw(t, "functions"), fmt.Sprint("image-", rapid.IntRange(0, 2).Draw(t, "image")))
			if rapid.Bool().Draw(t, "rest") {
				s.rest()
			}
		}
		require.Empty(t, RecordsKept(&s.h).Violations)
		s.record(int64(changes), there, "another")
		s.rest()
		require.Len(t, RecordsKept(&s.h).Violations, there)
	})
}
