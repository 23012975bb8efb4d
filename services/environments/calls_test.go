// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/services/server"
)

var (
	kind    = schema.GroupResource{Group: "berth.dev", Resource: plural}
	smokeID = render.ID("default", "example-app")
)

func create(t *testing.T, c *service, spec *schedulerv1.EnvironmentSpecification) (*schedulerv1.Environment, error) {
	t.Helper()
	out, err := (&grpcAPI{service: c, namespace: "default"}).create(t.Context(), &schedulerv1.CreateEnvironmentRequest{Spec: spec})
	return out.GetEnvironment(), err
}

func update(t *testing.T, c *service, spec *schedulerv1.EnvironmentSpecification) (*schedulerv1.Environment, error) {
	t.Helper()
	out, err := (&grpcAPI{service: c, namespace: "default"}).update(t.Context(), &schedulerv1.UpdateEnvironmentRequest{Id: smokeID, Spec: spec})
	return out.GetEnvironment(), err
}

// created is a world with the environment of a specification, and what serves it.
func created(t *testing.T, spec *schedulerv1.EnvironmentSpecification) (*world, *service, *grpcAPI) {
	t.Helper()
	w, c := newWorld(t)
	require.NoError(t, errOf(create(t, c, spec)))
	return w, c, &grpcAPI{service: c, namespace: "default"}
}

// errOf is the error of a call whose answer does not matter.
func errOf[R any](_ R, err error) error { return err }

func requireCode(t *testing.T, want codes.Code, err error) string {
	t.Helper()
	require.Error(t, err)
	e := server.AsError(err)
	require.Equal(t, want, e.Code, "%v", err)
	return e.Message
}

func TestCreate(t *testing.T) {
	w, c := newWorld(t)
	e, err := create(t, c, smoke())
	require.NoError(t, err)
	assert.Equal(t, smokeID, e.GetId())
	assert.Equal(t, schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_PENDING, e.GetStatus())
	assert.True(t, e.GetCreatedAt().IsValid() && e.GetUpdatedAt().IsValid())
	assert.True(t, proto.Equal(withoutSecrets(smoke()), e.GetSpec()))
	assert.Equal(t, []server.Access{{Verb: "create", Group: "berth.dev", Version: "v1alpha1", Resource: plural, Namespace: "default"}}, w.asked)

	stored, secret := w.environments["default/"+smokeID], w.secrets["default/"+smokeID+"-credentials"]
	require.NotNil(t, secret)
	assert.Equal(t, "alice", stored.Annotations[v1alpha1.ActorAnnotation])
	assert.True(t, metav1.IsControlledBy(secret, stored))
	assert.Equal(t, map[string][]byte{
		"databasePassword": []byte("hunter2"), "databaseConnectionString": []byte("postgresql://user:hunter2@database:5432/app"),
		"apiKeys.JWT_SECRET": []byte("hunter3"),
	}, secret.Data)
	assert.Equal(t, secret.Name, stored.Spec.Stack.Database.SecretRef.Name)
	assert.Equal(t, secret.Name, stored.Spec.Stack.Backend.SecretRef.Name)
	assert.Equal(t, []string{"POST secrets", "POST environments", "PUT secrets"}, w.writes, "the environment is never without its Secret")

	assert.Contains(t, requireCode(t, codes.AlreadyExists, errOf(create(t, c, smoke()))), smokeID)
	for _, line := range w.audit {
		assert.NotContains(t, line, "hunter")
	}
}

func TestAnEnvironmentWithoutSecretsHasNone(t *testing.T) {
	w, _, _ := created(t, withoutSecrets(smoke()))
	assert.Empty(t, w.secrets)
	assert.Nil(t, w.environments["default/"+smokeID].Spec.Stack.Database.SecretRef)
}

func TestAnInvalidEnvironmentIsNotCreated(t *testing.T) {
	w, c := newWorld(t)
	for name, change := range map[string]func(*schedulerv1.EnvironmentSpecification){
		"no name":  func(s *schedulerv1.EnvironmentSpecification) { s.Name = "" },
		"no stack": func(s *schedulerv1.EnvironmentSpecification) { s.ApplicationStack = nil },
		"no component": func(s *schedulerv1.EnvironmentSpecification) {
			s.ApplicationStack = &schedulerv1.ApplicationStack{Name: "nothing"}
		},
		"no image": func(s *schedulerv1.EnvironmentSpecification) { s.ApplicationStack.Backend.Container.Image = "" },
	} {
		spec := smoke()
		change(spec)
		_, err := create(t, c, spec)
		requireCode(t, codes.InvalidArgument, err)
		require.NotEmpty(t, server.AsError(err).Violations, name)
	}
	// What only the API server finds has the proto's names too.
	w.before = fails(http.MethodPost, plural, apierrors.NewInvalid(schema.GroupKind{}, "x", nil))
	requireCode(t, codes.InvalidArgument, errOf(create(t, c, smoke())))
	assert.Empty(t, w.writes)
}

func TestAStackByItsName(t *testing.T) {
	_, c := newWorld(t)
	name := render.Stacks()[0].Name
	e, err := create(t, c, &schedulerv1.EnvironmentSpecification{Name: "mine", ApplicationStack: &schedulerv1.ApplicationStack{Name: name}})
	require.NoError(t, err)
	assert.NotNil(t, e.GetSpec().GetApplicationStack().GetDatabase())
	assert.Contains(t, requireCode(t, codes.InvalidArgument, errOf(create(t, c, &schedulerv1.EnvironmentSpecification{Name: "mine", ApplicationStack: &schedulerv1.ApplicationStack{Name: "x"}}))), name, "which there are")
}

// Wherever a creation ends, there is an environment with its whole Secret or none.
func TestACreationThatEndsHalfWayLeavesAllOrNothing(t *testing.T) {
	key := "default/" + smokeID + "-credentials"
	oops := apierrors.NewInternalError(errors.New("oops"))
	for name, tc := range map[string]struct {
		fail   func(http.ResponseWriter, *http.Request) bool
		exists bool
		secret bool
	}{
		"at the Secret":                 {fails(http.MethodPost, "secrets", oops), false, false},
		"at the environment":            {written(fails(http.MethodPost, plural, oops)), false, true},
		"at the owner of the Secret":    {fails(http.MethodPut, "secrets", oops), true, true},
		"at the environment, refused":   {fails(http.MethodPost, plural, apierrors.NewInvalid(schema.GroupKind{}, "x", nil)), false, false},
		"at the environment, forbidden": {written(fails(http.MethodPost, plural, apierrors.NewForbidden(kind, "x", nil))), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t)
			w.before = tc.fail
			err := errOf(create(t, c, smoke()))
			assert.Equal(t, tc.exists, err == nil, "%v", err)
			assert.Equal(t, tc.exists, w.environments["default/"+smokeID] != nil)
			assert.Equal(t, tc.secret, w.secrets[key] != nil)
			w.before = nil
			if tc.exists {
				requireCode(t, codes.AlreadyExists, errOf(create(t, c, smoke())))
				assert.Equal(t, "hunter2", string(w.secrets[key].Data["databasePassword"]))
				return
			}
			if s := w.secrets[key]; s != nil { // another call may still commit it; later none can
				short, cancel := context.WithTimeout(t.Context(), 2*othersInterval)
				defer cancel()
				_, err := c.create(short, "default", smokeID, requestedOf(t, smoke()))
				requireCode(t, codes.DeadlineExceeded, err)
				assert.Empty(t, w.environments)
				s.CreationTimestamp = metav1.NewTime(time.Now().Add(-abandonedAfter))
				s.Data["databasePassword"] = []byte("of another")
			}
			require.NoError(t, errOf(create(t, c, smoke())))
			assert.Equal(t, "hunter2", string(w.secrets[key].Data["databasePassword"]))
			assert.True(t, metav1.IsControlledBy(w.secrets[key], w.environments["default/"+smokeID]))
		})
	}
}

// written fails what is not a dry run.
func written(fail func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool { return !r.URL.Query().Has("dryRun") && fail(rw, r) }
}

func requestedOf(t *testing.T, spec *schedulerv1.EnvironmentSpecification) *requested {
	t.Helper()
	a, err := fromWire(spec)
	require.NoError(t, err)
	return a
}

// Of creations of one name that differ only in the password one is OK, and its password is stored.
func TestOneOfManyCreationsOfAnEnvironmentIsOK(t *testing.T) {
	for range 10 {
		w, c := newWorld(t)
		var calls errgroup.Group
		codesOf := make([]codes.Code, 20)
		for i := range codesOf {
			calls.Go(func() error {
				spec := smoke()
				spec.ApplicationStack.Database.Password = fmt.Sprint("password ", i)
				delete(spec.GetApplicationStack().GetDatabase().GetContainer().GetEnvironmentVariables(), render.PostgresPassword)
				_, err := create(t, c, spec)
				codesOf[i] = status.Code(err)
				if e := server.AsError(err); e != nil {
					codesOf[i] = e.Code
				}
				return nil
			})
		}
		require.NoError(t, calls.Wait())
		winner := slices.Index(codesOf, codes.OK)
		require.GreaterOrEqual(t, winner, 0)
		require.Equal(t, fmt.Sprint("password ", winner), string(w.secrets["default/"+smokeID+"-credentials"].Data["databasePassword"]))
		codesOf[winner] = codes.AlreadyExists
		require.Equal(t, slices.Repeat([]codes.Code{codes.AlreadyExists}, 20), codesOf)
	}
}

// After updates of many callers the environment has the spec and the keys of one of them, which was answered OK.
func TestAnUpdateChangesSpecAndSecretTogether(t *testing.T) {
	w, c, _ := created(t, smoke())
	failing := apierrors.NewConflict(kind, smokeID, errors.New("old"))
	puts := 0
	w.before = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, plural) || r.URL.Query().Has("dryRun") {
			return false
		}
		w.with(func() { puts++ })
		return puts%3 != 0 && fails(http.MethodPut, plural, failing)(rw, r)
	}
	var calls errgroup.Group
	ok := make([]bool, 16)
	for i := range ok {
		calls.Go(func() error {
			spec := smoke()
			spec.Description, spec.ApplicationStack.Backend.ApiKeys = fmt.Sprint(i), map[string]string{"KEY": fmt.Sprint(i)}
			_, err := update(t, c, spec)
			if ok[i] = err == nil; !ok[i] && server.AsError(err).Code != codes.Aborted {
				return err
			}
			return nil
		})
	}
	require.NoError(t, calls.Wait())
	stored := w.environments["default/"+smokeID]
	require.Len(t, w.secrets, 1, "nothing is left of the others")
	secret := w.secrets["default/"+stored.Spec.Stack.Backend.SecretRef.Name]
	require.NotNil(t, secret)
	require.Equal(t, stored.Spec.Stack.Database.SecretRef, stored.Spec.Stack.Backend.SecretRef)
	assert.Equal(t, stored.Spec.Description, string(secret.Data["apiKeys.KEY"]))
	assert.Equal(t, "hunter2", string(secret.Data["databasePassword"]))
	assert.True(t, metav1.IsControlledBy(secret, stored))
	last, err := strconv.Atoi(stored.Spec.Description)
	require.NoError(t, err)
	assert.True(t, ok[last])
}

func TestASecretThatIsNotTheirs(t *testing.T) {
	w, c := newWorld(t)
	key := "default/" + smokeID + "-credentials"
	old := &environment{}
	old.Namespace, old.Name, old.UID = "default", smokeID, "before"
	w.secrets[key] = newSecret(old, smokeID+"-credentials", "", map[string][]byte{"databasePassword": []byte("old"), "x": nil})
	w.secrets[key].OwnerReferences, w.secrets[key].UID = ownedBy(old), "s"
	require.NoError(t, errOf(create(t, c, smoke())))
	assert.Equal(t, "DELETE secrets", w.writes[0], "before the environment could begin with the old password")
	assert.NotContains(t, w.secrets[key].Data, "x")

	w, c = newWorld(t)
	somebodys := &corev1.Secret{}
	somebodys.Name, somebodys.Namespace = smokeID+"-credentials", "default"
	w.secrets[key] = somebodys
	requireCode(t, codes.FailedPrecondition, errOf(create(t, c, smoke())))
	assert.Empty(t, w.writes)
}

// The update of the smoke client has the backend only.
func TestUpdateKeepsWhatItDoesNotHave(t *testing.T) {
	w, c := newWorld(t)
	first, err := create(t, c, smoke())
	require.NoError(t, err)
	w.runs(smokeID, v1alpha1.EnvironmentRunning)
	stored := w.environments["default/"+smokeID]
	stored.Spec.Stack.Backend.Replicas = new(int32(3))
	stored.Spec.Placement = &v1alpha1.EnvironmentPlacement{DatabaseOnSpot: true}
	stored.Spec.Stack.Backend.Container.SecurityContext = &v1alpha1.EnvironmentSecurityContext{ReadOnlyRootFilesystem: true}
	stored.Spec.Stack.Backend.Container.Volumes = append(stored.Spec.Stack.Backend.Container.Volumes,
		v1alpha1.EnvironmentVolume{Name: "tmp", MountPath: "/tmp", Ephemeral: true})
	stored.Spec.Stack.Backend.Container.HealthCheck = &v1alpha1.EnvironmentHealthCheck{HTTPGet: &v1alpha1.EnvironmentHTTPGet{Port: 3000}}
	stored.Spec.Network = &v1alpha1.EnvironmentNetwork{Egress: &v1alpha1.EnvironmentEgress{Networks: []string{"10.0.0.0/8"}}}

	backend := proto.CloneOf(smoke().GetApplicationStack().GetBackend())
	backend.Container.Resources.MemoryMb, backend.DatabaseConnectionString, backend.ApiKeys = 1024, "", nil
	backend.Container.HealthCheck = nil
	backend.Container.Volumes = append(backend.Container.Volumes, &schedulerv1.VolumeMount{Name: "tmp", MountPath: "/tmp"})
	network := &schedulerv1.NetworkConfig{Isolated: true}
	e, err := update(t, c, &schedulerv1.EnvironmentSpecification{
		ApplicationStack: &schedulerv1.ApplicationStack{Version: "1.1.0", Backend: backend}, Network: network,
	})
	require.NoError(t, err)

	want := withoutSecrets(smoke())
	want.ApplicationStack.Backend.Container.Volumes, want.Network = backend.GetContainer().GetVolumes(), network
	want.ApplicationStack.Backend.Container.HealthCheck = nil
	want.ApplicationStack.Version, want.ApplicationStack.Backend.Container.Resources.MemoryMb = "1.1.0", 1024
	assert.True(t, proto.Equal(want, e.GetSpec()), "%v", e.GetSpec())
	assert.True(t, e.GetUpdatedAt().AsTime().After(first.GetUpdatedAt().AsTime()))
	assert.Equal(t, schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_UPDATING, e.GetStatus())
	stored = w.environments["default/"+smokeID]
	assert.EqualValues(t, 3, *stored.Spec.Stack.Backend.Replicas)
	assert.True(t, stored.Spec.Placement.DatabaseOnSpot)
	assert.Equal(t, smokeID+"-credentials", stored.Spec.Stack.Backend.SecretRef.Name)
	assert.True(t, stored.Spec.Stack.Backend.Container.SecurityContext.ReadOnlyRootFilesystem)
	assert.True(t, stored.Spec.Stack.Backend.Container.Volumes[len(backend.GetContainer().GetVolumes())-1].Ephemeral)
	assert.EqualValues(t, 3000, stored.Spec.Stack.Backend.Container.HealthCheck.HTTPGet.Port)
	assert.Equal(t, []string{"10.0.0.0/8"}, stored.Spec.Network.Egress.Networks)
	assert.Len(t, w.secrets["default/"+smokeID+"-credentials"].Data, 3)

	// To write back what was read writes nothing.
	before := len(w.writes)
	require.NoError(t, errOf(update(t, c, e.GetSpec())))
	assert.Len(t, w.writes, before)
}

func TestUpdateReplacesWhatItHas(t *testing.T) {
	w, c, _ := created(t, smoke())
	spec := smoke()
	spec.Labels, spec.Description = map[string]string{"team": "web"}, "new"
	spec.ApplicationStack.Frontend.Domains = nil
	spec.ApplicationStack.AdditionalServices = map[string]*schedulerv1.ContainerConfig{"mail": {Image: "mail"}}
	spec.ApplicationStack.Backend.ApiKeys = map[string]string{"OTHER": "x"}
	spec.ApplicationStack.Database.Password = ""
	w.writes = nil
	e, err := update(t, c, spec)
	require.NoError(t, err)
	assert.True(t, proto.Equal(withoutSecrets(spec), e.GetSpec()), "%v", e.GetSpec())
	require.Len(t, w.secrets, 1, "the one before is deleted")
	data := w.secrets["default/"+w.environments["default/"+smokeID].Spec.Stack.Backend.SecretRef.Name].Data
	assert.Equal(t, "hunter2", string(data["databasePassword"]))
	assert.Contains(t, data, "apiKeys.OTHER")
	assert.NotContains(t, data, "apiKeys.JWT_SECRET")
	assert.Equal(t, []string{"POST secrets", "PUT environments", "DELETE secrets"}, w.writes, "the spec never names a key that is not there")
	w.writes = nil
	require.NoError(t, errOf(update(t, c, spec)))
	assert.Empty(t, w.writes, "the same again")

	_, err = update(t, c, &schedulerv1.EnvironmentSpecification{Name: "other"})
	requireCode(t, codes.InvalidArgument, err)
	assert.Equal(t, "spec.name", server.AsError(err).Violations[0].Field)
}

// A password does not change for an update that the API server refuses.
func TestARefusedUpdateLeavesTheSecret(t *testing.T) {
	w, c, _ := created(t, smoke())
	w.before = fails(http.MethodPut, plural, apierrors.NewInvalid(schema.GroupKind{}, "x", nil))
	spec := smoke()
	spec.ApplicationStack.Database.Password = "other"
	requireCode(t, codes.InvalidArgument, errOf(update(t, c, spec)))
	assert.Equal(t, "hunter2", string(w.secrets["default/"+smokeID+"-credentials"].Data["databasePassword"]))
}

func TestAnUpdateTakesOverTheKeysOfAnotherSecret(t *testing.T) {
	w, c, _ := created(t, withoutSecrets(smoke()))
	w.environments["default/"+smokeID].Spec.Stack.Backend.SecretRef = &v1alpha1.EnvironmentSecret{Name: "mine"}
	mine := &corev1.Secret{Data: map[string][]byte{"apiKeys.A": []byte("a"), "other": []byte("o"), "databaseConnectionString": []byte("old")}}
	w.secrets["default/mine"] = mine
	spec := withoutSecrets(smoke())
	spec.ApplicationStack.Backend.DatabaseConnectionString = "new"
	w.denied["get"] = true
	requireCode(t, codes.PermissionDenied, errOf(update(t, c, spec)))
	assert.Len(t, w.secrets, 1, "a caller who may not get the Secret gets no copy of it")
	w.denied["get"] = false
	require.NoError(t, errOf(update(t, c, spec)))
	name := w.environments["default/"+smokeID].Spec.Stack.Backend.SecretRef.Name
	assert.True(t, render.IsCredentialsName(smokeID, name), name)
	assert.Equal(t, map[string][]byte{"apiKeys.A": []byte("a"), "databaseConnectionString": []byte("new")}, w.secrets["default/"+name].Data)
	assert.Contains(t, w.secrets, "default/mine")
}

// An update does not write into a Secret that only has the right name either.
func TestAnUpdateWithASecretThatIsNotTheirs(t *testing.T) {
	w, c, _ := created(t, withoutSecrets(smoke()))
	key := "default/" + smokeID + "-credentials"
	w.secrets[key] = &corev1.Secret{Data: map[string][]byte{"x": []byte("theirs")}}
	w.secrets[key].Name, w.secrets[key].Namespace, w.secrets[key].UID = smokeID+"-credentials", "default", "s"
	require.NoError(t, errOf(update(t, c, smoke())))
	assert.Equal(t, map[string][]byte{"x": []byte("theirs")}, w.secrets[key].Data)
	assert.NotEqual(t, smokeID+"-credentials", w.environments["default/"+smokeID].Spec.Stack.Backend.SecretRef.Name)
}

func TestAQuantityThatIsTheSameToClientsStays(t *testing.T) {
	before := &v1alpha1.EnvironmentSpec{}
	before.Stack.Backend = &v1alpha1.BackendComponent{Container: v1alpha1.EnvironmentContainer{
		Image: "x", Resources: &v1alpha1.EnvironmentResources{CPU: "0.5", Memory: "1G", Disk: "2Gi"},
	}}
	a, err := fromWire(specToWire(before))
	require.NoError(t, err)
	assert.Equal(t, before, merge(before, &a.spec))
	a.spec.Stack.Backend.Container.Resources.Memory = "955Mi"
	assert.Equal(t, "955Mi", merge(before, &a.spec).Stack.Backend.Container.Resources.Memory)
}

func TestWritesOfOthersAreNotLost(t *testing.T) {
	w, _, f := created(t, smoke())
	puts := 0
	w.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			if puts++; puts < retry.DefaultRetry.Steps {
				w.with(func() { w.environments["default/"+smokeID].ResourceVersion += "0" })
			}
		}
		return false
	}
	require.NoError(t, errOf(f.stop(t.Context(), &schedulerv1.StopEnvironmentRequest{Id: smokeID})))
	assert.Equal(t, retry.DefaultRetry.Steps, puts)

	w.before = fails(http.MethodPut, plural, apierrors.NewConflict(kind, smokeID, errors.New("old")))
	puts = 0
	conflict := w.before
	w.before = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			puts++
		}
		return conflict(rw, r)
	}
	requireCode(t, codes.Aborted, errOf(f.start(t.Context(), &schedulerv1.StartEnvironmentRequest{Id: smokeID})))
	assert.Equal(t, retry.DefaultRetry.Steps, puts)
}

func TestStartStopRestart(t *testing.T) {
	w, c := newWorld(t)
	now := time.Unix(1000, 0)
	c.now = func() time.Time { return now }
	f := &grpcAPI{service: c, namespace: "default"}
	require.NoError(t, errOf(create(t, c, smoke())))
	w.runs(smokeID, v1alpha1.EnvironmentRunning)
	spec := func() *v1alpha1.EnvironmentSpec { return &w.environments["default/"+smokeID].Spec }

	assert.Contains(t, requireCode(t, codes.FailedPrecondition, errOf(f.start(t.Context(), &schedulerv1.StartEnvironmentRequest{Id: smokeID}))), "Running")

	restarted, err := f.restart(t.Context(), &schedulerv1.RestartEnvironmentRequest{Id: smokeID})
	require.NoError(t, err)
	assert.Equal(t, schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_UPDATING, restarted.GetEnvironment().GetStatus())
	assert.EqualValues(t, 1000, spec().RestartedAt.Unix())
	require.NoError(t, errOf(f.restart(t.Context(), &schedulerv1.RestartEnvironmentRequest{Id: smokeID})))
	assert.EqualValues(t, 1001, spec().RestartedAt.Unix(), "a restart within the same second is one too")

	stopped, err := f.stop(t.Context(), &schedulerv1.StopEnvironmentRequest{Id: smokeID})
	require.NoError(t, err)
	assert.Equal(t, schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_STOPPING, stopped.GetEnvironment().GetStatus())
	assert.Equal(t, v1alpha1.RunPolicyStopped, spec().RunPolicy)
	assert.False(t, spec().ForceStop)
	w.runs(smokeID, v1alpha1.EnvironmentStopping)
	requireCode(t, codes.FailedPrecondition, errOf(f.stop(t.Context(), &schedulerv1.StopEnvironmentRequest{Id: smokeID})))
	require.NoError(t, errOf(f.stop(t.Context(), &schedulerv1.StopEnvironmentRequest{Id: smokeID, Force: true})), "who cannot wait any more")
	assert.True(t, spec().ForceStop)
	w.runs(smokeID, v1alpha1.EnvironmentStopped)
	assert.Contains(t, requireCode(t, codes.FailedPrecondition, errOf(f.stop(t.Context(), &schedulerv1.StopEnvironmentRequest{Id: smokeID, Force: true}))), "Stopped")
	restarted, err = f.restart(t.Context(), &schedulerv1.RestartEnvironmentRequest{Id: smokeID})
	require.NoError(t, err)
	assert.Equal(t, schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_CREATING, restarted.GetEnvironment().GetStatus())
	assert.Equal(t, v1alpha1.RunPolicyRunning, spec().RunPolicy)
	assert.False(t, spec().ForceStop)

	w.runs(smokeID, v1alpha1.EnvironmentCreating)
	writes := len(w.writes)
	require.NoError(t, errOf(f.start(t.Context(), &schedulerv1.StartEnvironmentRequest{Id: smokeID})))
	assert.Len(t, w.writes, writes, "it is being started")
	require.NoError(t, errOf(f.stop(t.Context(), &schedulerv1.StopEnvironmentRequest{Id: smokeID, Force: true})))
	w.runs(smokeID, v1alpha1.EnvironmentStopped)
	started, err := f.start(t.Context(), &schedulerv1.StartEnvironmentRequest{Id: smokeID})
	require.NoError(t, err)
	assert.Equal(t, schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_CREATING, started.GetEnvironment().GetStatus())
	assert.False(t, spec().ForceStop)

	w.with(func() { w.environments["default/"+smokeID].DeletionTimestamp = &metav1.Time{Time: now} })
	assert.Contains(t, requireCode(t, codes.FailedPrecondition, errOf(f.stop(t.Context(), &schedulerv1.StopEnvironmentRequest{Id: smokeID}))), "Deleting")
	requireCode(t, codes.FailedPrecondition, errOf(update(t, c, smoke())))
	before := len(w.writes)
	out, err := f.remove(t.Context(), &schedulerv1.DeleteEnvironmentRequest{Id: smokeID})
	require.NoError(t, err)
	assert.True(t, out.GetSuccess())
	assert.Len(t, w.writes, before, "on its way already")
}

func TestAnUnknownID(t *testing.T) {
	_, c := newWorld(t)
	f := &grpcAPI{service: c, namespace: "default"}
	for _, id := range []string{"shop-12345678", "No/Such", strings.Repeat("x", 1000), "../x"} {
		requireCode(t, codes.NotFound, errOf(f.get(t.Context(), &schedulerv1.GetEnvironmentRequest{Id: id})))
		requireCode(t, codes.NotFound, errOf(f.status(t.Context(), &schedulerv1.GetEnvironmentStatusRequest{Id: id})))
		requireCode(t, codes.NotFound, errOf(f.update(t.Context(), &schedulerv1.UpdateEnvironmentRequest{Id: id, Spec: smoke()})))
		requireCode(t, codes.NotFound, errOf(f.remove(t.Context(), &schedulerv1.DeleteEnvironmentRequest{Id: id})))
		requireCode(t, codes.NotFound, errOf(f.start(t.Context(), &schedulerv1.StartEnvironmentRequest{Id: id})))
		requireCode(t, codes.NotFound, c.logs(t.Context(), "default", &schedulerv1.GetEnvironmentLogsRequest{Id: id}, nil))
	}
	requireCode(t, codes.InvalidArgument, errOf(f.get(t.Context(), &schedulerv1.GetEnvironmentRequest{})))
}

// Each rpc authorizes its verb, and does nothing for a caller without it.
func TestAccess(t *testing.T) {
	w, c, f := created(t, smoke())
	w.writes = nil
	for name, tc := range map[string]struct {
		verb, subresource, name string
		call                    func() error
	}{
		"create": {"create", "", "", func() error { return errOf(create(t, c, smoke())) }},
		"update": {"update", "", smokeID, func() error { return errOf(update(t, c, smoke())) }},
		"get":    {"get", "", smokeID, func() error { return errOf(f.get(t.Context(), &schedulerv1.GetEnvironmentRequest{Id: smokeID})) }},
		"status": {"get", "", smokeID, func() error {
			return errOf(f.status(t.Context(), &schedulerv1.GetEnvironmentStatusRequest{Id: smokeID}))
		}},
		"list":   {"list", "", "", func() error { return errOf(f.list(t.Context(), &schedulerv1.ListEnvironmentsRequest{})) }},
		"delete": {"delete", "", smokeID, func() error { return errOf(f.remove(t.Context(), &schedulerv1.DeleteEnvironmentRequest{Id: smokeID})) }},
		"start":  {"update", "", smokeID, func() error { return errOf(f.start(t.Context(), &schedulerv1.StartEnvironmentRequest{Id: smokeID})) }},
		"stop":   {"update", "", smokeID, func() error { return errOf(f.stop(t.Context(), &schedulerv1.StopEnvironmentRequest{Id: smokeID})) }},
		"restart": {"update", "", smokeID, func() error {
			return errOf(f.restart(t.Context(), &schedulerv1.RestartEnvironmentRequest{Id: smokeID}))
		}},
		"scale": {"update", "", smokeID, func() error {
			return errOf(f.scale(t.Context(), &schedulerv1.ScaleEnvironmentRequest{Id: smokeID, Replicas: map[string]int32{"backend": 2}}))
		}},
		"logs": {"get", "log", smokeID, func() error {
			return c.logs(t.Context(), "default", &schedulerv1.GetEnvironmentLogsRequest{Id: smokeID}, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w.asked, w.denied = nil, map[string]bool{tc.verb: true}
			requireCode(t, codes.PermissionDenied, tc.call())
			assert.Equal(t, []server.Access{{
				Verb: tc.verb, Group: "berth.dev", Version: "v1alpha1", Resource: plural, Subresource: tc.subresource, Namespace: "default", Name: tc.name,
			}}, w.asked)
			assert.Empty(t, w.writes)
		})
	}
}

func TestAPortOfAnotherEnvironment(t *testing.T) {
	w, c := newWorld(t)
	other := &environment{}
	other.Namespace, other.Name = "default", "shop-1"
	other.Status.Ports = []v1alpha1.AllocatedPort{{Component: "frontend", ContainerPort: 80, HostPort: 8080, Protocol: "TCP"}}
	w.environments["default/shop-1"] = other
	assert.Contains(t, requireCode(t, codes.AlreadyExists, errOf(create(t, c, smoke()))), `"shop-1"`)
	delete(w.environments, "default/shop-1")

	// The caller cannot read the environments of another namespace: their names stay there.
	other.Namespace = "elsewhere"
	w.environments["elsewhere/shop-1"] = other
	message := requireCode(t, codes.AlreadyExists, errOf(create(t, c, smoke())))
	assert.NotContains(t, message, "shop-1")
	assert.NotContains(t, message, "elsewhere")
	assert.Contains(t, message, "spec.application_stack.frontend.container.ports[0].host_port")
	assert.Empty(t, w.writes)

	other.Status.Ports[0].Protocol = "UDP"
	require.NoError(t, errOf(create(t, c, smoke())), "another protocol")
	other.Status.Ports[0].Protocol = "TCP"
	requireCode(t, codes.AlreadyExists, errOf(update(t, c, smoke())))
	c.exposure = v1alpha1.ExposureHostPort
	require.NoError(t, errOf(update(t, c, smoke())))
}

func TestAudit(t *testing.T) {
	w, c := newWorld(t)
	f := &grpcAPI{service: c, namespace: "default"}
	last := func() string { return w.audit[len(w.audit)-1] }
	require.NoError(t, errOf(create(t, c, smoke())))
	for _, part := range []string{`"msg"="Audit"`, `"verb"="create"`, `"environment"="` + smokeID, `"namespace"="default"`, `"caller"="alice"`, `"code"="OK"`} {
		assert.Contains(t, last(), part)
	}
	w.runs(smokeID, v1alpha1.EnvironmentRunning)
	require.Error(t, errOf(f.start(t.Context(), &schedulerv1.StartEnvironmentRequest{Id: smokeID})))
	assert.Contains(t, last(), `"code"="FAILED_PRECONDITION"`)
	for verb, call := range map[string]func() error{
		"update": func() error { return errOf(update(t, c, &schedulerv1.EnvironmentSpecification{Description: "x"})) },
		"restart": func() error {
			return errOf(f.restart(t.Context(), &schedulerv1.RestartEnvironmentRequest{Id: smokeID}))
		},
		"scale": func() error {
			return errOf(f.scale(t.Context(), &schedulerv1.ScaleEnvironmentRequest{Id: smokeID, Replicas: map[string]int32{"backend": 2}}))
		},
	} {
		require.NoError(t, call())
		assert.Contains(t, last(), `"verb"="`+verb+`"`)
		assert.Contains(t, last(), `"code"="OK"`)
	}
	require.NoError(t, errOf(f.stop(t.Context(), &schedulerv1.StopEnvironmentRequest{Id: smokeID})))
	assert.Contains(t, last(), `"verb"="stop"`)
	require.NoError(t, errOf(f.remove(t.Context(), &schedulerv1.DeleteEnvironmentRequest{Id: smokeID})))
	assert.Contains(t, last(), `"verb"="delete"`)

	n := len(w.audit)
	w.denied["delete"] = true
	require.Error(t, errOf(f.remove(t.Context(), &schedulerv1.DeleteEnvironmentRequest{Id: smokeID})))
	require.Len(t, w.audit, n+1)
	assert.Contains(t, last(), `"code"="PERMISSION_DENIED"`)
	assert.Panics(t, func() {
		_, _ = c.audited(t.Context(), "stop", "default", "x", func() (*environment, error) { panic("oops") })
	})
	assert.Contains(t, last(), `"code"="INTERNAL"`)
}

// Either all components are scaled or none, and an error names each that cannot be.
func TestScale(t *testing.T) {
	w, c := newWorld(t)
	f := &grpcAPI{service: c, namespace: "default"}
	require.NoError(t, errOf(create(t, c, smoke())))
	w.runs(smokeID, v1alpha1.EnvironmentRunning)
	spec := func() *v1alpha1.EnvironmentSpec { return &w.environments["default/"+smokeID].Spec }
	scale := func(replicas map[string]int32) error {
		return errOf(f.scale(t.Context(), &schedulerv1.ScaleEnvironmentRequest{Id: smokeID, Replicas: replicas}))
	}
	require.NoError(t, scale(map[string]int32{"backend": 3, "frontend": 2}))
	assert.EqualValues(t, 3, *spec().Stack.Backend.Replicas)
	assert.EqualValues(t, 2, *spec().Stack.Frontend.Replicas)

	spec().Stack.Frontend.Autoscaling = &v1alpha1.EnvironmentAutoscaling{MaxReplicas: 5}
	w.writes = nil
	err := scale(map[string]int32{"backend": 4, "database": 2, "frontend": 3, "nothing": 1})
	requireCode(t, codes.InvalidArgument, err)
	var said []string
	for _, v := range server.AsError(err).Violations {
		said = append(said, v.Field+" "+v.Description)
	}
	require.Len(t, said, 3)
	assert.Contains(t, said[0], "replicas[database] database cannot be scaled: it has one replica")
	assert.Contains(t, said[1], "replicas[frontend] frontend cannot be scaled: its autoscaling sets from 1 to 5 replicas")
	assert.Contains(t, said[2], `replicas[nothing] component "nothing" not found: the environment has database`)
	requireCode(t, codes.InvalidArgument, scale(map[string]int32{"backend": 1001}))
	requireCode(t, codes.InvalidArgument, scale(map[string]int32{"backend": -1}))
	requireCode(t, codes.InvalidArgument, scale(nil))
	many := map[string]int32{}
	for i := range 100_000 {
		many[fmt.Sprint(i)] = 1
	}
	err = scale(many)
	requireCode(t, codes.InvalidArgument, err)
	assert.Len(t, server.AsError(err).Violations, 1)
	assert.Empty(t, w.writes)
	assert.EqualValues(t, 3, *spec().Stack.Backend.Replicas)

	// An update by a client that sends neither leaves both.
	require.NoError(t, errOf(update(t, c, smoke())))
	assert.EqualValues(t, 3, *spec().Stack.Backend.Replicas)
	assert.EqualValues(t, 5, spec().Stack.Frontend.Autoscaling.MaxReplicas)
}

func TestListPages(t *testing.T) {
	w, c := newWorld(t)
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		e := &environment{}
		e.Namespace, e.Name = "default", n
		if n != "c" {
			e.Spec.Labels = map[string]v1alpha1.AttributeValue{"team": "x"}
		}
		w.environments["default/"+n] = e
	}
	f := &grpcAPI{service: c, namespace: "default"}
	req := &schedulerv1.ListEnvironmentsRequest{PageSize: 3, Filters: map[string]string{"team": "x"}}
	page, err := f.list(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, page.GetEnvironments(), 3)
	assert.EqualValues(t, 4, page.GetTotalCount())
	assert.Equal(t, "d", page.GetEnvironments()[2].GetId())
	req.PageToken = page.GetNextPageToken()
	page, err = f.list(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, page.GetEnvironments(), 1)
	assert.Equal(t, "e", page.GetEnvironments()[0].GetId())
	assert.EqualValues(t, 4, page.GetTotalCount())
	assert.Empty(t, page.GetNextPageToken())
}

func TestTheAPIServerIsGone(t *testing.T) {
	w, c := newWorld(t)
	f := &grpcAPI{service: c, namespace: "default"}
	w.before = fails(http.MethodGet, plural, apierrors.NewServiceUnavailable("down"))
	requireCode(t, codes.Unavailable, errOf(f.get(t.Context(), &schedulerv1.GetEnvironmentRequest{Id: "x"})))
	w.before = func(rw http.ResponseWriter, _ *http.Request) bool {
		http.NotFound(rw, nil) // as for an unknown resource
		return true
	}
	requireCode(t, codes.Unavailable, errOf(f.get(t.Context(), &schedulerv1.GetEnvironmentRequest{Id: "x"})))
}

func TestMetrics(t *testing.T) {
	w, c, f := created(t, smoke())
	w.runs(smokeID, v1alpha1.EnvironmentRunning)
	w.pods = []corev1.Pod{*podOf("backend", "b"), *podOf("frontend", "f")}
	for i := range w.pods {
		w.pods[i].Labels[v1alpha1.EnvironmentLabel], w.pods[i].Spec.NodeName = smokeID, "node-1"
	}
	w.pods[0].Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": apiresource.MustParse("500m"), "memory": apiresource.MustParse("1Gi")}
	status := func() []*schedulerv1.ContainerMetrics {
		out, err := f.status(t.Context(), &schedulerv1.GetEnvironmentStatusRequest{Id: smokeID})
		require.NoError(t, err)
		require.Len(t, out.GetEnvironment().GetContainers(), 2)
		return out.GetContainerMetrics()
	}
	assert.Empty(t, status(), "no metrics API")

	w.metrics = `{"items":[{"metadata":{"name":"b"},"containers":[{"name":"main","usage":{"cpu":"250m","memory":"512Mi"}}]},
		{"metadata":{"name":"f"},"containers":[{"name":"main","usage":{"cpu":"250000000n","memory":"1Mi"}}]}]}`
	got := status()
	require.Len(t, got, 2)
	assert.True(t, proto.Equal(&schedulerv1.ContainerMetrics{
		ContainerId: "uid-of-b/main", CpuUsagePercent: 50, MemoryUsageBytes: 512 << 20, MemoryLimitBytes: 1 << 30,
	}, got[0]), "%v", got[0])
	assert.InDelta(t, 25, got[1].GetCpuUsagePercent(), 0, "of one core")

	c.summary = true
	asked := 0
	w.before = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/nodes/node-1/proxy/stats/summary" {
			return false
		}
		asked++
		_, _ = rw.Write([]byte(`{"pods":[{"podRef":{"name":"b","namespace":"run","uid":"x"},"network":{"rxBytes":10,"txBytes":20},
			"containers":[{"name":"main","rootfs":{"usedBytes":3},"logs":{"usedBytes":4},"cpu":{"usageNanoCores":1},"memory":{"workingSetBytes":9}}]},
			{"podRef":{"name":"b","namespace":"other"},"containers":[{"name":"main","rootfs":{"usedBytes":999}}]}]}`))
		return true
	}
	got = status()
	assert.Equal(t, 1, asked, "each kubelet once")
	assert.True(t, proto.Equal(&schedulerv1.ContainerMetrics{
		ContainerId: "uid-of-b/main", CpuUsagePercent: 50, MemoryUsageBytes: 512 << 20, MemoryLimitBytes: 1 << 30,
		DiskUsageBytes: 7, NetworkRxBytes: 10, NetworkTxBytes: 20,
	}, got[0]), "%v", got[0])
	assert.Zero(t, got[1].GetDiskUsageBytes())
}
