// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/uncached"
)

const (
	plural = "environments"
	// fieldManager owns what the services write.
	fieldManager = v1alpha1.ServiceFieldManager
	// chunk is the page size of a list.
	chunk = 500
)

type environment = v1alpha1.Environment

// store reads and writes Environments, and reads what belongs to them.
type store struct {
	client ctrlclient.Client
	coreV1 corev1client.CoreV1Interface
}

func newStore(config *rest.Config) (*store, error) {
	c, err := uncached.New(config, fieldManager)
	if err != nil {
		return nil, err
	}
	config = uncached.WithDeadlines(config)
	config.Timeout = 0 // it would cut off logs that are followed; every call has a timeout of its own
	coreV1, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	return &store{c, coreV1}, nil
}

func (s *store) get(ctx context.Context, namespace, name string) (*environment, error) {
	e := &environment{}
	return e, s.client.Get(ctx, ctrlclient.ObjectKey{Namespace: namespace, Name: name}, e)
}

func (s *store) create(ctx context.Context, e *environment) (*environment, error) {
	out := e.DeepCopy()
	return out, s.client.Create(ctx, out)
}

// update replaces the version that e was read as, and no other.
func (s *store) update(ctx context.Context, e *environment) (*environment, error) {
	out := e.DeepCopy()
	return out, s.client.Update(ctx, out)
}

// validateNew makes the API server validate what create would write.
func (s *store) validateNew(ctx context.Context, e *environment) error {
	return s.client.Create(ctx, e.DeepCopy(), ctrlclient.DryRunAll)
}

// validate makes the API server validate what update would write.
func (s *store) validate(ctx context.Context, e *environment) error {
	return s.client.Update(ctx, e.DeepCopy(), ctrlclient.DryRunAll)
}

// remove deletes the environment that e was read as, whatever its version, and no other of its name.
func (s *store) remove(ctx context.Context, e *environment) error {
	return s.client.Delete(ctx, e, ctrlclient.Preconditions{UID: &e.UID})
}

// list returns the environments of a namespace that match, of all namespaces if it is "".
func (s *store) list(ctx context.Context, namespace string, match func(*environment) bool) (all []*environment, err error) {
	err = uncached.EachItem(ctx, s.client, &v1alpha1.EnvironmentList{}, namespace, func(e *environment) {
		if match(e) {
			all = append(all, e)
		}
	})
	return all, err
}

// instances returns the containers of an environment, none as long as it has no namespace.
func (s *store) instances(ctx context.Context, e *environment) ([]instance, error) {
	if e.Status.Namespace == "" {
		return nil, nil
	}
	options := metav1.ListOptions{LabelSelector: selectorOf(e), Limit: chunk}
	var all []corev1.Pod
	for {
		pods, err := s.coreV1.Pods(e.Status.Namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		all = append(all, pods.Items...)
		if options.Continue = pods.Continue; options.Continue == "" {
			return instances(e, all), nil
		}
	}
}

// selectorOf selects the pods of an environment.
func selectorOf(e *environment) string { return v1alpha1.EnvironmentLabel + "=" + e.Name }
