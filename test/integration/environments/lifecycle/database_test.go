// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	internal "berth.dev/berth/internal/environments/render"
)

const driver = "csi.example.com"

// csiVolume makes a volume of a driver, smaller than others, so that it is the one that a claim takes.
func (s *scene) csiVolume() {
	s.T.Helper()
	s.volumeOf("2Gi", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: s.Namespace}})
}

// A database is dumped where there are no snapshots, and the controller leaves alone what that makes.
func TestADatabaseIsDumped(t *testing.T) {
	s := share(t)
	e := environment("shop")
	e.Spec.Stack.Database.PersistentStorage = true
	e.Spec.Network = &v1alpha1.EnvironmentNetwork{Isolated: true}
	e = s.runs(e)
	name := strings.TrimPrefix(strings.TrimSpace(s.berth("", "env", "backup-database", "shop", "--size", "1Gi", "-o", "name")), "job.batch/")

	s.evaluateAgain("shop")
	s.seen("shop", "evaluated", func(*v1alpha1.Environment) bool { return true })
	job := in(s, e, name, &batchv1.Job{})
	assert.Nil(t, job.DeletionTimestamp)
	assert.Equal(t, "postgres:17", job.Spec.Template.Spec.Containers[0].Image)
	assert.Equal(t, []string{"database-backups", "database-data"}, s.names(e, &corev1.PersistentVolumeClaimList{}))
	// Whose pods reach the database: a policy of the environment lets them.
	list := s.berth("", "env", "database-backups", "shop")
	assert.Contains(t, list, name)
	assert.Contains(t, list, "dump")
	s.Delete(job, client.PropagationPolicy(metav1.DeletePropagationForeground))
}

// A snapshot takes the place of what a stopped database has, and the controller takes over the claim that is made of it.
func TestADatabaseComesBackFromASnapshot(t *testing.T) {
	s := start(t)
	s.csiVolume()
	s.serveKinds("snapshots.yaml", "volumesnapshots."+internal.SnapshotKind.Group, "volumesnapshotclasses."+internal.SnapshotKind.Group)
	class := &unstructured.Unstructured{Object: map[string]any{"driver": driver, "deletionPolicy": "Delete"}}
	class.SetGroupVersionKind(internal.SnapshotClassKind)
	class.SetName("fast")
	s.Succeeds("snapshots are served", func() error { return s.Client.Create(s.Ctx, class.DeepCopy()) })
	e := environment("shop")
	e.Spec.Stack.Database.PersistentStorage = true
	e = s.runs(e)
	before := s.claim(e)

	name := strings.TrimSpace(s.berth("", "env", "backup-database", "shop", "-o", "name"))
	require.Contains(t, name, "volumesnapshot")
	snapshot := &unstructured.Unstructured{}
	snapshot.SetGroupVersionKind(internal.SnapshotKind)
	_, short, _ := strings.Cut(name, "/")
	in(s, e, short, snapshot)
	require.NoError(t, unstructured.SetNestedMap(snapshot.Object, map[string]any{"readyToUse": true, "restoreSize": "1Gi"}, "status")) // as its controller does
	require.NoError(t, s.Client.Status().Update(s.Ctx, snapshot))
	s.berth("", "env", "stop", "shop", "--wait")
	s.berth("", "env", "restore-database", "shop", "--from", short, "--confirm", "--timeout", time.Minute.String())

	after := s.claim(e)
	assert.NotEqual(t, before.UID, after.UID)
	require.NotNil(t, after.Spec.DataSource)
	assert.Equal(t, short, after.Spec.DataSource.Name)
	e = s.seen("shop", "the controller finds in it what it wants", func(e *v1alpha1.Environment) bool {
		return condition(e, v1alpha1.ConditionDegraded).Status == metav1.ConditionFalse
	})
	s.Always(2*time.Second, "the claim stays", func() (bool, string) {
		c := s.claim(e)
		return c.UID == after.UID && c.DeletionTimestamp == nil, string(c.UID)
	})
}
