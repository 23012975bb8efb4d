// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli"
	"berth.dev/berth/test/testenv"
)

// berth runs kubectl berth in the test's namespace, and returns what it prints.
func (s *scene) berth(stdin string, args ...string) string {
	s.T.Helper()
	var out, errOut bytes.Buffer
	cmd := cli.New(genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut})
	cmd.SetArgs(append(args, "--kubeconfig", s.Cluster.KubeconfigPath(), "--namespace", s.Namespace, "--cache-dir", s.T.TempDir()))
	err := cmd.ExecuteContext(s.Ctx)
	s.T.Logf("kubectl berth %s\n%s%s", strings.Join(args, " "), out.String(), errOut.String())
	require.NoError(s.T, err)
	return out.String()
}

// Environments of which nothing is left come back from a backup, and databases with the passwords that they had.
func TestEnvironmentsAreRestoredFromABackup(t *testing.T) {
	s := share(t)
	secret := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "given"}, Data: map[string][]byte{v1alpha1.DatabasePasswordKey: []byte("as it was")}}
	}
	s.Create(secret())
	first, second := environment("first"), small("second")
	first.Spec.Stack.Database.SecretRef = &v1alpha1.EnvironmentSecret{Name: "given"}
	second.Spec.Stack.Frontend.Container.Ports[0].HostPort = 8081
	s.Create(first, second)
	specs := map[string]v1alpha1.EnvironmentSpec{}
	for _, name := range []string{"first", "second"} {
		specs[name] = s.comes(name, v1alpha1.EnvironmentRunning).Spec
	}
	backup := s.berth("", "env", "backup", "--with-secrets")
	s.deleteAll()
	s.Delete(secret())
	for _, e := range []*v1alpha1.Environment{first, second} {
		s.waitEverything(e, 0, "nothing is left")
	}

	s.berth(backup, "env", "restore", "-f", "-")
	for name, spec := range specs {
		e := s.comes(name, v1alpha1.EnvironmentRunning)
		assert.Equal(t, spec, e.Spec)
	}
	assert.Equal(t, "as it was", s.password(s.get("first")))
}

// What is left of an environment that was not taken down is found, and deleted on request; what is of others stays.
func TestOrphansAreFoundAndDeleted(t *testing.T) {
	s := start(t)
	s.Create(small("lost"), small("other"))
	lost, other := s.comes("lost", v1alpha1.EnvironmentRunning), s.comes("other", v1alpha1.EnvironmentRunning)
	s.lose(lost)

	found := s.berth("", "env", "orphans")
	assert.Contains(t, found, "Namespace/"+lost.Status.Namespace)
	assert.NotContains(t, found, other.Status.Namespace)
	left := s.namespace(lost) // the list deletes nothing
	s.run()                   // the controller removes the finalizers of ResourceLimits
	s.berth("", "env", "orphans", "--delete")
	s.WaitDeleted(left)
	assert.Nil(t, s.namespace(other).DeletionTimestamp)

	// The controller reports what it finds, and deletes it if it is configured to.
	s.Create(small("late"))
	late := s.comes("late", v1alpha1.EnvironmentRunning)
	s.lose(late)
	s.run(func(c *controller.Configuration) { c.Environments.OrphanIntervalSeconds = 1 })
	left = s.namespace(late)
	s.Eventually("an event on the namespace", func() (bool, string) {
		events, err := s.Kube.CoreV1().Events(metav1.NamespaceDefault).List(s.Ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + left.Name})
		require.NoError(t, err)
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == v1alpha1.EventReasonOrphaned && e.InvolvedObject.UID == left.UID &&
				e.Message == "Environment "+s.Namespace+"/late no longer exists"
		}), fmt.Sprint(events.Items)
	})
	assert.Nil(t, s.namespace(late).DeletionTimestamp, "to report deletes nothing")
	s.Reconfigure(s.process, func(c *controller.Configuration) { c.Environments.DeleteOrphansAfterSeconds = 1 })
	s.WaitDeleted(left)
	assert.Nil(t, s.namespace(other).DeletionTimestamp)
	s.release()
}

// lose ends the controller and removes an Environment without it, so that its objects stay.
func (s *scene) lose(e *v1alpha1.Environment) {
	s.T.Helper()
	testenv.End(s.process, false)
	s.Delete(e)
	s.change(e.Name, func(e *v1alpha1.Environment) { e.Finalizers = nil })
	s.WaitDeleted(e)
}

// What never came to run is removed after a while, if that is configured, and tried again when it is changed.
// It need not be configured at the start.
func TestAStartThatFailsIsCleanedUp(t *testing.T) {
	s := start(t, func(c *controller.Configuration) {
		c.Environments.StartTimeoutSeconds, c.Environments.CleanUpFailedSeconds = 600, 0
	})
	e := environment("stuck")
	e.Spec.Stack.Database.PersistentStorage = true
	e.Spec.Stack.Database.Container.Resources = &v1alpha1.EnvironmentResources{CPU: "1000"} // no node has that
	s.Create(e)
	s.comes("stuck", v1alpha1.EnvironmentCreating)
	impatient := small("impatient")
	impatient.Spec.StartTimeoutSeconds, impatient.Spec.CleanUpFailedSeconds = new(int32(10)), new(int32(1))
	impatient.Spec.Stack.Frontend.Container.Resources = &v1alpha1.EnvironmentResources{CPU: "1000"}
	s.Create(impatient)
	impatient = s.comes("impatient", v1alpha1.EnvironmentFailed)
	assert.Equal(t, v1alpha1.EnvironmentCreating, s.get("stuck").Status.Phase, "its own timeout is that of the configuration")
	s.waitEverything(impatient, 2, "it is all or nothing, in spite of the configuration")
	s.deleted(impatient)
	s.Reconfigure(s.process, func(c *controller.Configuration) { c.Environments.StartTimeoutSeconds = 10 })
	s.comes("stuck", v1alpha1.EnvironmentFailed)
	s.Always(testenv.Short, "nothing is removed", func() (bool, string) { have := s.everything(e); return len(have) > 2, fmt.Sprint(have) })
	s.Reconfigure(s.process, func(c *controller.Configuration) { c.Environments.CleanUpFailedSeconds = 1 })
	e = s.until("stuck", "it is cleaned up", func(e *v1alpha1.Environment) bool {
		return condition(e, v1alpha1.ConditionDegraded).Reason == "CleanedUp"
	})
	assert.Equal(t, v1alpha1.EnvironmentFailed, e.Status.Phase)
	s.waitEverything(e, 2, "nothing but its namespace and history is left")
	s.change("stuck", func(e *v1alpha1.Environment) { e.Spec.Stack.Database.Container.Resources.CPU = "100m" })
	s.comes("stuck", v1alpha1.EnvironmentRunning)
}
