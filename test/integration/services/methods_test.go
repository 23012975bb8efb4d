// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire/anyform"
	"berth.dev/berth/test/wire/oaashead"
)

const name = "shared"

func objectMeta(name, text string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{"text": text}}
}

// absent deletes an object, and waits until it is gone.
func (s *scene) absent(t *testing.T, o client.Object) {
	t.Helper()
	o.SetNamespace(s.Namespace)
	require.NoError(t, client.IgnoreNotFound(s.Client.Delete(s.Ctx, o)))
	s.Eventually(o.GetName()+" is gone", func() (bool, string) {
		err := s.Client.Patch(s.Ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		return apierrors.IsNotFound(err), ""
	})
}

// find reads an object, and reports whether it is there.
func (s *scene) find(t *testing.T, name string, into client.Object) bool {
	t.Helper()
	err := s.Client.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, into)
	require.NoError(t, client.IgnoreNotFound(err))
	return err == nil
}

// settled calls again while the code is that of what is not ready.
func (s *scene) settled(t *testing.T, call func() error) {
	t.Helper()
	s.Eventually("it is written", func() (bool, string) {
		err := call()
		switch status.Code(err) {
		case codes.OK, codes.AlreadyExists:
			return true, ""
		default:
			return false, err.Error()
		}
	})
}

// specification is one whose parts all name the request they are of.
func specification(name, request string) *schedulerv1.EnvironmentSpecification {
	return &schedulerv1.EnvironmentSpecification{Name: name, Description: request, ApplicationStack: &schedulerv1.ApplicationStack{
		Name: "stack", Version: request,
		Database: &schedulerv1.DatabaseConfig{Container: &schedulerv1.ContainerConfig{Image: "postgres:17"}, Password: request},
		Backend: &schedulerv1.BackendConfig{
			Container:                &schedulerv1.ContainerConfig{Image: "backend:1", EnvironmentVariables: map[string]string{"REQUEST": request}},
			ApiKeys:                  map[string]string{"KEY": request},
			DatabaseConnectionString: request,
		},
	}}
}

func (s *scene) environments() []method {
	id := render.ID(s.Namespace, name)
	conn := s.Dial(nil)
	c := schedulerv1.NewSchedulerServiceClient(conn)
	create := func(request string) error {
		return servicetest.Err(c.CreateEnvironment(s.As(s.Editor), &schedulerv1.CreateEnvironmentRequest{Spec: specification(name, request)}))
	}
	gone := func(t *testing.T) {
		s.absent(t, &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Name: id}})
		s.absent(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: id + "-credentials"}})
	}
	there := func(t *testing.T) {
		gone(t)
		s.settled(t, func() error { return create(before) })
		s.Eventually("it is seen", func() (bool, string) {
			e := testenv.Read(s.World, id, &v1alpha1.Environment{})
			return e.Status.ObservedGeneration == e.Generation, e.Status.Message
		})
	}
	stored := func(t *testing.T) (parts []string) {
		e := &v1alpha1.Environment{}
		if !s.find(t, id, e) {
			return nil
		}
		parts = []string{e.Spec.Description, e.Spec.Stack.Version, string(e.Spec.Stack.Backend.Container.Env["REQUEST"])}
		for _, ref := range []*v1alpha1.EnvironmentSecret{e.Spec.Stack.Database.SecretRef, e.Spec.Stack.Backend.SecretRef} {
			secret := &corev1.Secret{}
			require.True(t, s.find(t, ref.Name, secret), "the environment refers to Secret %s, which does not exist", ref.Name)
			for _, key := range []string{"databasePassword", "databaseConnectionString", "apiKeys.KEY"} {
				parts = append(parts, string(secret.Data[key]))
			}
		}
		return parts
	}
	stop := func() error {
		return servicetest.Err(c.StopEnvironment(s.As(s.Editor), &schedulerv1.StopEnvironmentRequest{Id: id}))
	}
	stopped := func(t *testing.T) {
		there(t)
		s.settled(t, stop)
		s.Eventually("it is stopped", func() (bool, string) {
			e := testenv.Read(s.World, id, &v1alpha1.Environment{})
			return e.Status.Phase == v1alpha1.EnvironmentStopped, string(e.Status.Phase)
		})
	}
	conflict := []codes.Code{codes.Aborted, codes.FailedPrecondition}
	return []method{
		{name: "StartEnvironment", before: stopped, stored: stored, keeps: true, refusals: conflict, call: func(string) error {
			return servicetest.Err(c.StartEnvironment(s.As(s.Editor), &schedulerv1.StartEnvironmentRequest{Id: id}))
		}},
		{name: "ScaleEnvironment", before: there, refusals: []codes.Code{codes.Aborted}, call: func(request string) error {
			r := &schedulerv1.ScaleEnvironmentRequest{Id: id, Replicas: map[string]int32{stack.Backend: replicasOf(request)}}
			return servicetest.Err(c.ScaleEnvironment(s.As(s.Editor), r))
		}, stored: func(t *testing.T) []string {
			e := &v1alpha1.Environment{}
			if !s.find(t, id, e) {
				return nil
			}
			return []string{requestOf(ptr.Deref(e.Spec.Stack.Backend.Replicas, 1))}
		}},
		{name: "CreateEnvironment", before: gone, call: create, refusals: []codes.Code{codes.AlreadyExists}, stored: stored, once: true},
		{name: "UpdateEnvironment", before: there, stored: stored, refusals: []codes.Code{codes.Aborted}, call: func(request string) error {
			r := &schedulerv1.UpdateEnvironmentRequest{Id: id, Spec: specification("", request)}
			return servicetest.Err(c.UpdateEnvironment(s.As(s.Editor), r))
		}},
		{name: "StopEnvironment", before: there, stored: stored, keeps: true, refusals: conflict, call: func(string) error { return stop() }},
		{name: "RestartEnvironment", before: there, stored: stored, keeps: true, refusals: conflict, call: func(string) error {
			return servicetest.Err(c.RestartEnvironment(s.As(s.Editor), &schedulerv1.RestartEnvironmentRequest{Id: id}))
		}},
		{name: "DeleteEnvironment", before: there, refusals: []codes.Code{codes.NotFound}, gone: true, call: func(string) error {
			return servicetest.Err(c.DeleteEnvironment(s.As(s.Editor), &schedulerv1.DeleteEnvironmentRequest{Id: id}))
		}, stored: func(t *testing.T) []string {
			e := &v1alpha1.Environment{}
			if s.find(t, id, e) && e.DeletionTimestamp == nil {
				return []string{before}
			}
			return nil
		}},
	}
}

// replicasOf are the replicas that a request of the scale of a component has: those before it are 1, which is the default.
func replicasOf(request string) int32 {
	if n, err := strconv.ParseInt(strings.TrimPrefix(request, "r"), 10, 32); err == nil {
		return int32(n) + 3
	}
	return 2
}

// requestOf is the inverse of replicasOf.
func requestOf(replicas int32) string {
	switch replicas {
	case 1:
		return before
	case 2:
		return equal()[0]
	}
	return fmt.Sprint("r", replicas-3)
}

// releaseEnvironments deletes the environments while there is a controller that removes their finalizers.
func (s *scene) releaseEnvironments() {
	s.T.Helper()
	for _, id := range s.Names(&v1alpha1.EnvironmentList{}) {
		s.absent(s.T, &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Name: id}})
	}
}

func (s *scene) records() []method {
	c := oaashead.NewDeploymentServiceClient(s.Conn())
	deploy := func(request string) error {
		return servicetest.Err(c.Deploy(s.As(s.Editor), &oaashead.DeployRequest{DeploymentUnit: &oaashead.DeploymentUnit{
			Id: name, PackageName: "shop", ClassKey: request, TargetEnv: request,
			Functions: []*oaashead.FunctionDeploymentSpec{{
				FunctionKey: "add", ProvisionConfig: &oaashead.ProvisionConfig{ContainerImage: new("example.com/" + request)},
				Config: map[string]string{"REQUEST": request},
			}},
		}}))
	}
	gone := func(t *testing.T) { s.absent(t, &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Name: name}}) }
	there := func(t *testing.T) {
		gone(t)
		s.settled(t, func() error { return deploy(before) })
	}
	stored := func(t *testing.T) []string {
		r := &v1alpha1.DeploymentRecord{}
		if !s.find(t, name, r) {
			return nil
		}
		u := r.Spec.DeploymentUnit
		return []string{
			u.ClassKey, r.Spec.TargetEnvironment, strings.TrimPrefix(u.Functions[0].Image, "example.com/"), string(u.Functions[0].Config["REQUEST"]),
		}
	}
	return []method{
		{name: "Deploy, new", before: gone, call: deploy, stored: stored},
		{name: "Deploy, changed", before: there, call: deploy, stored: stored},
		{name: "DeleteDeployment", before: there, refusals: []codes.Code{codes.NotFound}, gone: true, stored: stored, call: func(string) error {
			return servicetest.Err(c.DeleteDeployment(s.As(s.Editor), &oaashead.DeleteDeploymentRequest{DeploymentId: name}))
		}},
	}
}

func (s *scene) limits() []method {
	c := anyform.NewResourceLimitServiceClient(s.Conn())
	limits := &anyform.ResourceLimit{Cpu: "1", Memory: "1Gi"}
	create := func(request string) error {
		return servicetest.Err(c.CreateResourceLimit(s.As(s.Editor), &anyform.CreateResourceLimitRequest{
			Name: name, Description: request, Labels: map[string]string{"request": request}, Limits: limits,
		}))
	}
	gone := func(t *testing.T) { s.absent(t, &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Name: name}}) }
	there := func(t *testing.T) {
		gone(t)
		s.settled(t, func() error { return create(before) })
	}
	stored := func(t *testing.T) []string {
		c := anyform.NewResourceLimitServiceClient(s.Conn())
		got, err := c.GetResourceLimit(s.As(s.Viewer), &anyform.GetResourceLimitRequest{Name: name})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		require.NoError(t, err)
		return []string{got.GetDescription(), got.GetLabels()["request"]}
	}
	return []method{
		{name: "CreateResourceLimit", before: gone, call: create, refusals: []codes.Code{codes.AlreadyExists}, stored: stored, once: true},
		{name: "UpdateResourceLimit", before: there, stored: stored, refusals: []codes.Code{codes.Aborted}, call: func(request string) error {
			return servicetest.Err(c.UpdateResourceLimit(s.As(s.Editor), &anyform.UpdateResourceLimitRequest{
				Name: name, Description: request, Labels: map[string]string{"request": request}, Limits: limits,
			}))
		}},
		{name: "DeleteResourceLimit", before: there, refusals: []codes.Code{codes.NotFound}, gone: true, stored: func(t *testing.T) []string {
			l := &v1alpha1.ResourceLimit{}
			if s.find(t, name, l) && l.DeletionTimestamp == nil {
				return []string{l.Name}
			}
			return nil
		}, call: func(string) error {
			return servicetest.Err(c.DeleteResourceLimit(s.As(s.Editor), &anyform.DeleteResourceLimitRequest{Name: name}))
		}},
	}
}
