// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/doctor"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// profile is the file with the configuration of the scheduler that runs.
var profile = testenv.Path(testenv.SecondScheduler)

// findings are what doctor reported, by check.
func findings(w *testenv.World, kubeconfig string, args ...string) (map[string]doctor.Finding, error) {
	w.T.Helper()
	r := kubectl(w, kubeconfig, "", append([]string{"doctor", "-o", "json"}, args...)...)
	report := decode[doctor.Report](w.T, result{out: r.out})
	byCheck := map[string]doctor.Finding{}
	for _, f := range report.Findings {
		byCheck[f.Check] = f
		if f.Level != doctor.OK {
			assert.NotEmpty(w.T, f.Next, "%s has a next step", f.Check)
		}
	}
	return byCheck, r.err
}

func TestDoctorPassesOnAGoodCluster(t *testing.T) {
	w := begin(t, testenv.Roomy()...)
	w.Controller()
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 5))
	w.RequireExact("web", split.New(70, 2), 5)
	me := user(w, "doctor", doctorRights)
	var found map[string]doctor.Finding
	var err error
	w.Eventually("the controller has looked at the mix", func() (bool, string) {
		found, err = findings(w, me, "--scheduler-config", profile)
		return found["mix status"].Level == doctor.OK, found["mix status"].Message
	})
	require.NoError(t, err)
	for check, f := range found {
		assert.Equal(t, doctor.OK, f.Level, "%s: %s", check, f.Message)
	}
	assert.Contains(t, found["scheduler"].Message, "berth-system/berth-scheduler")
	assert.Contains(t, found["controller"].Message, "berth-system/berth-controller")

	r := kubectl(w, me, "", "doctor", "--scheduler-config", profile).ok(t)
	assert.NotContains(t, r.out, string(doctor.Warn))

	// With a controller, status has nothing to complain of.
	assert.Empty(t, kubectl(w, me, "", "status", "-n", w.Namespace).ok(t).errOut)
}

// A local cluster runs the scheduler as a process, and has its configuration in a ConfigMap as the manifests do.
func TestDoctorReadsTheProfileOfASchedulerWithoutADeployment(t *testing.T) {
	w := begin(t, testenv.Roomy()...)
	me := user(w, "doctor", doctorRights)
	found, err := findings(w, me)
	require.NoError(t, err)
	assert.Equal(t, doctor.Warn, found["scheduler profile"].Level, "there is no ConfigMap")

	w.CreateForTest(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-scheduler-config"},
		Data:       map[string]string{filepath.Base(profile): testenv.ReadFile(t, profile)},
	})
	found, err = findings(w, me)
	require.NoError(t, err)
	assert.Equal(t, doctor.OK, found["scheduler profile"].Level, found["scheduler profile"].Message)
	assert.Contains(t, found["scheduler profile"].Message, "ConfigMap berth-system/berth-scheduler-config")
}

func TestDoctorNamesWhatIsBroken(t *testing.T) {
	w := begin(t, append(cluster.Nodes("on-demand", 1), cluster.Nodes("", 1)...)...)
	w.Create(
		builders.CapacityMix("web", 70, 2),
		builders.Deployment("web", 2), builders.Pod("web", "stray", onNode("on-demand-0")),
		builders.PodDisruptionBudget("web", builders.MinAvailable("1")),
	)
	again := builders.CapacityMix("web", 10, 0)
	again.Name = "web-too"
	second := builders.PodDisruptionBudget("web", builders.MinAvailable("1"))
	second.Name = "web-too"
	w.Create(again, second)
	w.WaitReady("web", 3)
	me := user(w, "doctor", doctorRights)

	kubectl(w, me, "", "doctor").ok(t)
	found, err := findings(w, me)
	require.NoError(t, err, "nothing of this keeps Berth from working")
	for check, says := range map[string]string{
		"scheduler profile":  "no configuration can be read",
		"node types":         "(node-0)",
		"conflicts":          "web-too selects pods that the older web governs (3 pods)",
		"scheduler names":    "stray (default-scheduler)",
		"disruption budgets": "2 PodDisruptionBudgets select the pod (web, web-too)",
		"mix status":         "no current status in ",
	} {
		assert.Equal(t, doctor.Warn, found[check].Level, check)
		assert.Contains(t, found[check].Message, says, check)
	}

	doctorOnConfigurations(t, w, me)
	doctorOnRights(t, w, me)
}

// doctorOnConfigurations runs it with configurations that are not those of the scheduler that runs.
func doctorOnConfigurations(t *testing.T, w *testenv.World, me string) {
	t.Run("another lease", func(t *testing.T) {
		config := testenv.ReadFile(t, profile)
		other := strings.Replace(config, "resourceName: berth-scheduler", "resourceName: nobody", 1)
		found, err := findings(w, me, "--scheduler-config", testenv.WriteFile(t, "config.yaml", other))
		require.ErrorIs(t, err, command.ErrFailed)
		assert.Equal(t, doctor.Fail, found["scheduler"].Level)
		assert.Contains(t, found["scheduler"].Message, "lease berth-system/nobody does not exist")
	})
	t.Run("a profile without the plugin", func(t *testing.T) {
		file := testenv.WriteFile(t, "config.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
		found, err := findings(w, me, "--scheduler-config", file)
		require.ErrorIs(t, err, command.ErrFailed)
		assert.Equal(t, doctor.Fail, found["scheduler profile"].Level)
	})
}

// doctorOnRights takes rights away for a moment: the scheduler's watches go on.
func doctorOnRights(t *testing.T, w *testenv.World, me string) {
	t.Run("missing rights", func(t *testing.T) {
		for _, name := range []string{"berth-scheduler", "berth-controller"} {
			w.Delete(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		defer w.ApplyFiles("manifests/rbac")
		w.Eventually("the API server has heard of it", func() (bool, string) {
			found, err := findings(w, me)
			return err != nil && found["rights of berth-scheduler"].Level == doctor.Fail && found["rights of berth-controller"].Level == doctor.Warn, ""
		})
	})
	t.Run("little rights of the user", func(t *testing.T) {
		found, err := findings(w, user(w, "little", viewer[2:]))
		require.NoError(t, err)
		assert.Equal(t, doctor.Warn, found["your rights"].Level)
		assert.Contains(t, found["your rights"].Message, "list nodes")
		assert.Equal(t, "not allowed: create subjectaccessreviews.authorization.k8s.io", found["rights of berth-scheduler"].Message)
	})
}

// The rights that the controller needs for an optional feature are checked where the feature is used.
func TestDoctorChecksTheRightsOfFeaturesInUse(t *testing.T) {
	w := begin(t, testenv.Roomy()...)
	const check = "rights of berth-environments for Environments"
	admin := w.Cluster.KubeconfigPath()
	found, _ := findings(w, admin, "--scheduler-config", profile)
	assert.NotContains(t, found, check)
	assert.Equal(t, doctor.OK, found["Environment resource"].Level, found["Environment resource"].Message)

	w.Create(builders.Environment("shop"))
	found, _ = findings(w, admin, "--scheduler-config", profile)
	assert.Equal(t, doctor.Warn, found[check].Level)
	assert.Contains(t, found[check].Message, "create statefulsets.apps")
	assert.Equal(t, "kubectl apply -k manifests/rbac/environments", found[check].Next)

	w.ApplyFiles("manifests/rbac/environments")
	w.Eventually("the rights are seen", func() (bool, string) {
		found, _ = findings(w, admin, "--scheduler-config", profile)
		return found[check].Level == doctor.OK, found[check].Message
	})
	assert.NotContains(t, found, "rights of berth-controller for DeploymentRecords")

	// One process has the permissions of all.
	binding := testenv.ReadIn(w, "", "berth-environments", &rbacv1.ClusterRoleBinding{})
	testenv.Patch(w, binding, func(b *rbacv1.ClusterRoleBinding) { b.Subjects[0].Name = "berth-controller" })
	defer w.ApplyFiles("manifests/rbac/environments")
	w.Eventually("the rights of one process are seen", func() (bool, string) {
		found, _ = findings(w, admin, "--scheduler-config", profile)
		return found["rights of berth-controller for Environments"].Level == doctor.OK, found[check].Message
	})
	assert.NotContains(t, found, check)
}

func TestDoctorNamesWhatAutoscalersBreak(t *testing.T) {
	w := begin(t, testenv.Roomy()...)
	me := user(w, "doctor", doctorRights)
	web, m := builders.Deployment("web", 5), split.New(70, 2)
	w.Create(builders.CapacityMix("web", 70, 2), web)
	w.RequireExact("web", m, 5)
	found, err := findings(w, me, "--scheduler-config", profile)
	require.NoError(t, err)
	assert.Equal(t, doctor.OK, found["autoscalers"].Level, found["autoscalers"].Message)
	assert.NotContains(t, found, "deletion costs")

	w.CreateForTest(testenv.StatusOfClusterAutoscaler())
	found, err = findings(w, me, "--scheduler-config", profile)
	require.ErrorIs(t, err, command.ErrFailed)
	assert.Equal(t, doctor.Fail, found["autoscalers"].Level)
	assert.Contains(t, found["autoscalers"].Message, "cluster-autoscaler cannot evaluate the mix of 1 workload without the scheduling gate: "+w.Namespace+": Deployment web")
	assert.Contains(t, found["autoscalers"].Next, "webhook.gates=true")

	w.ServeKarpenter()
	testenv.Patch(w, web, func(d *appsv1.Deployment) { builders.Gated(&d.Spec.Template) })
	w.Eventually("every pod had the gate", func() (bool, string) {
		found, err = findings(w, me, "--scheduler-config", profile)
		return found["autoscalers"].Level == doctor.OK, found["autoscalers"].Message
	})
	require.NoError(t, err)
	assert.Contains(t, found["autoscalers"].Message, "Karpenter and cluster-autoscaler")
	assert.Equal(t, doctor.OK, found["deletion costs"].Level, found["deletion costs"].Message)

	karpenter := builders.Deployment("karpenter", 0, func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FEATURE_GATES", Value: "NodeRepair=false,PodDeletionCostManagement=true"}}
	})
	karpenter.Labels = map[string]string{"app.kubernetes.io/name": "karpenter"}
	w.Create(karpenter)
	found, err = findings(w, me, "--scheduler-config", profile)
	require.NoError(t, err)
	assert.Equal(t, doctor.Warn, found["deletion costs"].Level)
	assert.Contains(t, found["deletion costs"].Message, "PodDeletionCostManagement of Karpenter ("+w.Namespace+"/karpenter)")

	for _, p := range w.WaitExact("web", m, 5, testenv.SettleTimeout) {
		w.WriteCost(&p, "karpenter", "-99")
	}
	found, err = findings(w, me, "--scheduler-config", profile)
	require.NoError(t, err)
	assert.Equal(t, doctor.Warn, found["deletion costs"].Level)
	assert.Contains(t, found["deletion costs"].Message, "karpenter overwrote the deletion cost of 5 pods: ")
}
