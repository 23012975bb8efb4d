// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
)

const namespace = "crd-test"

// server is the API server that every test of this package shares, with the CRDs installed.
var server *cluster.Cluster

// otherServer is set where the API server is of another version than the one that words what is expected here: 1.35
// gives the type where 1.37 gives the value. What is refused, and by which rule, must be the same.
var otherServer = os.Getenv(cluster.ServerEnv) != ""

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: these tests start an API server, which -short leaves out")

		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	var err error
	server, err = cluster.StartOrBorrow(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)

		return 1
	}
	defer server.Stop()

	if err := install(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "install the CRDs:", err)

		return 1
	}

	return m.Run()
}

func install(ctx context.Context) error {
	root, err := cluster.RepoRoot()
	if err != nil {
		return err
	}
	if err := server.ApplyFiles(ctx, filepath.Join(root, "manifests", "crds")); err != nil {
		return err
	}

	return server.CreateNamespace(ctx, namespace)
}

// kind is one of Berth's kinds.
type kind struct{ name, resource string }

var (
	capacityMix      = kind{"CapacityMix", "capacitymixes"}
	resourceLimit    = kind{"ResourceLimit", "resourcelimits"}
	schedulingPolicy = kind{"SchedulingPolicy", "schedulingpolicies"}
	reservation      = kind{"Reservation", "reservations"}
	decision         = kind{"SchedulingDecision", "schedulingdecisions"}
)

// objects returns a client that sends what it is given, whatever the Go types would make of it.
func objects(t *testing.T, k kind) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(server.Config())
	require.NoError(t, err)

	return client.Resource(v1alpha1.SchemeGroupVersion.WithResource(k.resource)).Namespace(namespace)
}

// object returns an object with a spec given as YAML. Where the metadata matters, the YAML is that of a whole object.
func object(t *testing.T, k kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	var fields map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(spec), &fields))
	object := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	object.SetName(name)
	if _, whole := fields["metadata"]; whole {
		object.Object = fields
	}
	object.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(k.name))

	return object
}

// create sends an object as a dry run, which passes every check of a real create, and strictly, as kubectl does.
func create(t *testing.T, k kind, spec string) (*unstructured.Unstructured, error) {
	t.Helper()

	return objects(t, k).Create(t.Context(), object(t, k, "web", spec), metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
}

// store creates an object that stays.
func store(t *testing.T, k kind, name, spec string) {
	t.Helper()
	_, err := objects(t, k).Create(t.Context(), object(t, k, name, spec), metav1.CreateOptions{})
	require.NoError(t, err)
}
