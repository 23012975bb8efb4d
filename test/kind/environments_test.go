// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// shop is the environment of a test, and its database.
const shop = "shop"

// The containers of an environment have what its spec has: names, credentials, logs, limits.
func TestTheContainersOfAnEnvironment(t *testing.T) {
	w := testenv.New(t)
	e := running(w, v1alpha1.ApplicationStack{
		Database:           &v1alpha1.DatabaseComponent{Container: postgres(), DatabaseName: shop, Username: shop},
		AdditionalServices: []v1alpha1.AdditionalService{{Name: "cache", Container: app()}},
		Backend:            &v1alpha1.BackendComponent{Container: app()},
		Frontend:           &v1alpha1.FrontendComponent{Container: app()},
	})
	serving := []string{"backend", "frontend", "cache"}

	for _, from := range serving {
		for _, to := range serving {
			assert.Regexp(t, "^"+to+"-", ask(w, e, from, "http://"+to+":8080/"), "%s, called by %s", to, from)
		}
		assert.Contains(t, ask(w, e, from, "tcp://database:5432"), ":5432", "the database, as %s finds it", from)
	}
	_, url, found := strings.Cut(ask(w, e, "backend", "file:///proc/1/environ"), "DATABASE_URL=")
	require.True(t, found)
	url, _, _ = strings.Cut(url, "\x00")
	assert.Equal(t, "shop by shop", sql(w, e, url, "select current_database() || ' by ' || current_user"))

	assert.Equal(t, logs(w, e.Status.Namespace, "deployment/backend"), berth(w, "env", "logs", shop, "-c", "backend"))
	assert.Regexp(t, `(?m)^\[cache\] cache-\S+ serves on :8080$`, berth(w, "env", "logs", shop))
	assert.Contains(t, berth(w, "env", "logs", shop), "database system is ready to accept connections")

	status := ask(w, e, "backend", "file:///proc/1/status")
	assert.Equal(t, "1", field(t, status, "NoNewPrivs"))
	assert.Equal(t, "2", field(t, status, "Seccomp"), "a filter")
	capabilities, err := strconv.ParseUint(field(t, status, "CapBnd"), 16, 64)
	require.NoError(t, err)
	const netRaw = 13
	assert.Zero(t, capabilities>>netRaw&1, "raw sockets")
	assert.Equal(t, fmt.Sprint(32<<20), strings.TrimSpace(memoryLimit(w, e, "backend")))
}

// A new image is rolled out while a client keeps sending requests.
func TestARolloutOfAnEnvironmentFailsNoRequest(t *testing.T) {
	w := testenv.New(t)
	e := running(w, v1alpha1.ApplicationStack{
		Backend:  &v1alpha1.BackendComponent{Container: app(), Replicas: new(int32(2))},
		Frontend: &v1alpha1.FrontendComponent{Container: app()},
	})
	said := map[string]<-chan string{}
	for _, name := range []string{"backend", "frontend"} {
		pod := builders.Pod("load", "load-"+name, func(t *corev1.PodTemplateSpec) {
			t.Spec.TerminationGracePeriodSeconds = new(int64(30))
			t.Spec.Containers[0].Args = []string{"-load", "http://" + name + "." + e.Status.Namespace + ":8080/"}
		})
		w.Create(pod)
		w.Eventually("requests are answered", func() (bool, string) {
			out, err := w.TryTool("kubectl", "--namespace", w.Namespace, "logs", pod.Name)
			return err == nil && string(out) == "answered\n", fmt.Sprint(string(out), err)
		})
		end := make(chan string, 1)
		said[pod.Name] = end
		go func() {
			out, err := w.TryTool("kubectl", "--namespace", w.Namespace, "logs", "--follow", pod.Name)
			if err != nil {
				out = []byte(err.Error())
			}
			end <- string(out)
		}()
	}
	testenv.Patch(w, e, func(e *v1alpha1.Environment) {
		e.Spec.Stack.Backend.Container.Image, e.Spec.Stack.Frontend.Container.Image = newImage, newImage
	})
	w.Within(startTimeout, "all runs the new image, and nothing the old one", func() (bool, string) {
		all := append(podsOf(w, e, "backend"), podsOf(w, e, "frontend")...)
		fresh := testenv.Where(all, func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == newImage && testenv.Ready(p) })
		return len(all) == 3 && len(fresh) == 3, fmt.Sprintf("%d pods, %d of them new", len(all), len(fresh))
	})
	for name, end := range said {
		w.Tool("kubectl", "--namespace", w.Namespace, "delete", "pod", name, "--wait=false")
		select {
		case text := <-end:
			t.Logf("%s: %s", name, text)
			assert.Regexp(t, `^answered\n[1-9]\d+ answered, 0 failed\n$`, text, name)
		case <-time.After(startTimeout):
			require.Fail(t, "the load does not end", name)
		}
	}
}

// By its policy, a container stays ended or is restarted; what ran before a node was restarted runs afterwards, but not what was stopped.
func TestTheRestartPoliciesOfAnEnvironment(t *testing.T) {
	w := testenv.New(t)
	policy := func(c v1alpha1.EnvironmentContainer, p v1alpha1.EnvironmentRestartPolicy) v1alpha1.EnvironmentContainer {
		c.RestartPolicy = p
		return c
	}
	ending := app()
	ending.Args, ending.HealthCheck = []string{"-end", "3"}, nil
	e := created(w, v1alpha1.ApplicationStack{
		AdditionalServices: []v1alpha1.AdditionalService{{Name: "cache", Container: policy(app(), v1alpha1.RestartUnlessStopped)}},
		Backend:            &v1alpha1.BackendComponent{Container: policy(app(), v1alpha1.RestartAlways)},
		Frontend:           &v1alpha1.FrontendComponent{Container: policy(ending, v1alpha1.RestartNo)},
	})
	w.Within(startTimeout, "the frontend has ended", func() (bool, string) {
		pods := podsOf(w, e, "frontend")
		return len(pods) == 1 && pods[0].Status.Phase == corev1.PodFailed, seen(pods)
	})
	stays := func() (bool, string) {
		pods := podsOf(w, e, "frontend")
		return len(pods) == 1 && restarts(pods) == 0, seen(pods)
	}
	w.Always(testenv.Short, "the frontend is not started again", stays)

	before := append(podsOf(w, e, "backend"), podsOf(w, e, "cache")...)
	require.Len(t, before, 2)
	require.Zero(t, restarts(before))
	for _, node := range nodesBelow(before) {
		docker(w, "restart", node)
	}
	w.Within(startTimeout, "the same two pods are Ready again", func() (bool, string) {
		now := append(podsOf(w, e, "backend"), podsOf(w, e, "cache")...)
		if len(now) != 2 {
			return false, seen(now)
		}
		same := now[0].UID == before[0].UID && now[1].UID == before[1].UID
		return same && testenv.Ready(&now[0]) && testenv.Ready(&now[1]) && restarts(now) >= 2, seen(now)
	})
	holds, saw := stays()
	assert.True(t, holds, saw)

	testenv.Patch(w, e, func(e *v1alpha1.Environment) {
		e.Spec.Stack.Frontend.Container.RestartPolicy = v1alpha1.RestartOnFailure
	})
	w.Within(startTimeout, "the frontend is started again and again", func() (bool, string) {
		pods := podsOf(w, e, "frontend")
		return len(pods) == 1 && restarts(pods) >= 2, seen(pods)
	})

	berth(w, "env", "stop", shop, "--wait", "--timeout=3m")
	docker(w, "restart", before[0].Spec.NodeName)
	waitNode(w, before[0].Spec.NodeName)
	w.Always(testenv.Short, "nothing runs", func() (bool, string) {
		pods := slices.Concat(podsOf(w, e, "backend"), podsOf(w, e, "cache"))
		return len(pods) == 0, seen(pods)
	})
}

// A scheduled backup is verified by its restore, restored into another environment, and into its own: what was in the database then
// is in it again.
func TestTheDatabaseOfAnEnvironmentIsDumpedAndRestored(t *testing.T) {
	w := testenv.New(t)
	for range 2 { // its data, and the dumps
		volume(w, nodesOf(w, "on-demand"))
	}
	e := running(w, v1alpha1.ApplicationStack{
		Database: &v1alpha1.DatabaseComponent{Container: postgres(), DatabaseName: shop, Username: shop, PersistentStorage: true},
		Backend:  &v1alpha1.BackendComponent{Container: app()},
	})
	local := "postgresql:///" + shop + "?user=" + shop // by its socket
	sql(w, e, local, "create table orders (id int primary key, what text); insert into orders values (1, 'tea'), (2, 'cake')")
	w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "backup-key"}, Data: map[string][]byte{"key": []byte("a key that no one guesses")}})
	berth(w, "env", "backup-database", shop, "--schedule", "@every 5s", "--keep", "2", "--method", "dump", "--verify", "--encryption-secret", "backup-key")
	var last *v1alpha1.DatabaseBackupSchedule
	w.Within(startTimeout, "a scheduled backup is completed", func() (bool, string) {
		last = testenv.Read(w, shop, &v1alpha1.DatabaseBackupSchedule{})
		all, _ := json.Marshal(testenv.List(w, &v1alpha1.DatabaseBackupList{}).Items)
		return last.Status.LastBackup != "", string(all)
	})
	testenv.Patch(w, last, func(s *v1alpha1.DatabaseBackupSchedule) { s.Spec.Suspend = true })
	backup := testenv.Read(w, last.Status.LastBackup, &v1alpha1.DatabaseBackup{})
	assert.True(t, backup.Status.Verified)
	assert.True(t, backup.Status.Encrypted)
	assert.EqualValues(t, 1, *backup.Status.Tables)
	assert.NotEmpty(t, backup.Status.Size)

	other := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Name: "copy"}}
	other.Spec.Stack = v1alpha1.ApplicationStack{
		Database: &v1alpha1.DatabaseComponent{Container: postgres(), DatabaseName: "other", Username: "owner"},
	}
	w.Create(other)
	other = testenv.WaitFor(w, "copy", "is running", func(e *v1alpha1.Environment) bool { return e.Status.Phase == v1alpha1.EnvironmentRunning })
	berth(w, "env", "restore-database", "copy", "--from", backup.Name, "--confirm", "--wait", "--timeout=5m")
	assert.Equal(t, "2", sql(w, other, "postgresql:///other?user=owner", "select count(*) from orders"))

	sql(w, e, local, "delete from orders where id = 1; insert into orders values (3, 'late')")
	berth(w, "env", "scale", shop, "backend=0", "--wait", "--timeout=3m")
	berth(w, "env", "restore-database", shop, "--from", backup.Name, "--confirm", "--wait", "--timeout=5m")
	assert.Equal(t, "1 tea, 2 cake", sql(w, e, local, "select string_agg(id || ' ' || what, ', ' order by id) from orders"))
	assert.Equal(t, "0", sql(w, e, local, "select count(*) from pg_database where datname = 'berth_verify'"), "the scratch database is dropped")

	// The file is deleted with the backup.
	w.Delete(backup)
	w.WaitDeleted(backup)

	// And a database that goes away comes back with what it had.
	w.Tool("kubectl", "--namespace", e.Status.Namespace, "delete", "pod", "database-0")
	w.Tool("kubectl", "--namespace", e.Status.Namespace, "rollout", "status", "statefulset/database", "--timeout=3m")
	assert.Equal(t, "2", sql(w, e, local, "select count(*) from orders"))
}
