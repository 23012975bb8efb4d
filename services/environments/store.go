// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
)

const (
	plural = "environments"
	// fieldManager owns what the services write.
	fieldManager = "berth-services"
	// chunk is how many objects are requested at a time.
	chunk = 500
)

type environment = v1alpha1.Environment

// store reads and writes Environments, and what belongs to them, at the API server, without a cache: callers read what they
// wrote.
type store struct {
	client rest.Interface
	core   corev1client.CoreV1Interface
}

func newStore(config *rest.Config) (*store, error) {
	client, err := client.New(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	config = rest.CopyConfig(config)
	config.Timeout = 0 // it would cut off logs that are followed; every call has a time of its own
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &store{client, core}, nil
}

func (s *store) get(ctx context.Context, namespace, name string) (*environment, error) {
	var e environment
	return &e, client.Do(ctx, s.client.Get().Namespace(namespace).Resource(plural).Name(name), &e)
}

func (s *store) create(ctx context.Context, e *environment) (*environment, error) {
	var out environment
	return &out, client.Write(ctx, s.client.Post().Namespace(e.Namespace).Resource(plural), fieldManager, e, &out)
}

// update replaces the version that e was read as, and no other.
func (s *store) update(ctx context.Context, e *environment) (*environment, error) {
	var out environment
	return &out, client.Write(ctx, s.put(e), fieldManager, e, &out)
}

// wouldUpdate says what update would, and writes nothing.
func (s *store) wouldUpdate(ctx context.Context, e *environment) error {
	return client.Write(ctx, s.put(e).Param("dryRun", metav1.DryRunAll), fieldManager, e, &environment{})
}

func (s *store) put(e *environment) *rest.Request {
	return s.client.Put().Namespace(e.Namespace).Resource(plural).Name(e.Name)
}

// remove deletes the environment that e was read as, whatever became of it, and no other of its name.
func (s *store) remove(ctx context.Context, e *environment) error {
	return client.Delete(ctx, s.client.Delete().Namespace(e.Namespace).Resource(plural).Name(e.Name), metav1.Preconditions{UID: &e.UID})
}

// list returns the environments of a namespace that match, of all namespaces if it is "".
func (s *store) list(ctx context.Context, namespace string, match func(*environment) bool) ([]*environment, error) {
	var all []*environment
	for after := ""; ; {
		r := s.client.Get().Resource(plural).Param("limit", fmt.Sprint(chunk))
		if namespace != "" {
			r = r.Namespace(namespace)
		}
		if after != "" {
			r = r.Param("continue", after)
		}
		var page v1alpha1.EnvironmentList
		if err := client.Do(ctx, r, &page); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if e := &page.Items[i]; match(e) {
				all = append(all, e)
			}
		}
		if after = page.Continue; after == "" {
			return all, nil
		}
	}
}

// instances returns the containers of an environment, none as long as it has no namespace.
func (s *store) instances(ctx context.Context, e *environment) ([]instance, error) {
	if e.Status.Namespace == "" {
		return nil, nil
	}
	options := metav1.ListOptions{LabelSelector: selectorOf(e), Limit: chunk}
	var all []corev1.Pod
	for {
		pods, err := s.core.Pods(e.Status.Namespace).List(ctx, options)
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
