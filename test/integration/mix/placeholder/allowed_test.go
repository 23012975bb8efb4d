// SPDX-License-Identifier: Apache-2.0

package placeholder_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestARefusedPlaceholderIsReportedAndNothingIsEvicted(t *testing.T) {
	w := strayed(t)
	before := w.Live("web")
	w.Quota("pods", 4)
	c := w.Controller(testenv.Impatient)
	w.WaitBlocked("web", "PlaceholderRefused", "no on-demand node has free capacity", "exceeded quota")
	assert.Equal(t, 1, w.Metric(c, "berth_mix_placeholders_total", map[string]string{"result": "refused"}), "not again and again")
	assertUntouched(w, before)
}

func TestPlaceholdersMeetTheRestrictedStandardOfPodSecurity(t *testing.T) {
	w := strayedAs(t, func(p *corev1.PodTemplateSpec) { // the replacements meet it too
		p.Spec.SecurityContext = &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	})
	w.LabelNamespace("pod-security.kubernetes.io/enforce", "restricted")
	w.Fails("the standard is enforced", apierrors.IsForbidden, func() error { return w.DryRun(builders.Pod("loose", "loose")) })
	w.Controller(testenv.Impatient)
	waitHolders(w, 1)
}

func TestADryRunAndAModeThatOnlyReportsCreateNoPlaceholder(t *testing.T) {
	w := strayed(t, builders.RebalanceMode(v1alpha1.RebalanceModeReport))
	c := w.Controller(testenv.Impatient)
	w.WaitBlocked("web", "InsufficientCapacity")
	testenv.End(c, false)
	w.ChangeMix("web", builders.RebalanceMode(v1alpha1.RebalanceModeEvict))
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.DryRun = true })
	w.WaitBlocked("web", "InsufficientCapacity")
	w.Always(holds, "no placeholder", func() (bool, string) { return len(holders(w)) == 0, names(holders(w)) })
	assert.Empty(t, asked(w, "create", "pods"))
}

func TestTheControllerMayCreateAndDeleteNothingButPlaceholders(t *testing.T) {
	w := strayed(t)
	config := rest.CopyConfig(w.Cluster.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: cluster.BerthControllerUser}
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	try := func(change func(*corev1.Pod), dryRun ...string) error {
		p := builders.Pod("stolen", "stolen")
		p.Labels = map[string]string{v1alpha1.PlaceholderLabel: "x"}
		p.Spec.PriorityClassName, p.Spec.AutomountServiceAccountToken = "berth-placeholder", new(false)
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)}
		change(p)
		_, err := kube.CoreV1().Pods(w.Namespace).Create(w.Ctx, p, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	require.NoError(t, try(func(*corev1.Pod) {}, metav1.DryRunAll))
	for what, change := range map[string]func(*corev1.Pod){
		"without the label": func(p *corev1.Pod) { p.Labels = nil },
		"with a token":      func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil },
		"that matters":      func(p *corev1.Pod) { p.Spec.PriorityClassName = "" },
		"with its node":     func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"with a volume": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		},
		"as root": func(p *corev1.Pod) { p.Spec.SecurityContext = nil },
		"with init work": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{*p.Spec.Containers[0].DeepCopy()}
			p.Spec.InitContainers[0].Name = "init"
		},
		"privileged": func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		},
		"with capabilities": func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
		},
	} {
		w.Fails("a pod "+what+" is refused", apierrors.IsForbidden, func() error { return try(change) })
	}
	err = kube.CoreV1().Pods(w.Namespace).Delete(w.Ctx, w.Live("web")[0].Name, metav1.DeleteOptions{})
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
}
