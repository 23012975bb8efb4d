// SPDX-License-Identifier: Apache-2.0

package render

import (
	"path"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
)

// Labels of what backs up a database. The controller deletes what has both labels of an environment and is not rendered, and
// mixes and Services select pods by one of them: what is made here has neither.
const (
	// BackupOfLabel is the id of the Environment whose database something backs up or restores.
	BackupOfLabel = v1alpha1.AnnotationPrefix + "/backup-of"
	// RestoredFromLabel is on what restores, and not on what backs up: the name of the backup.
	RestoredFromLabel = v1alpha1.AnnotationPrefix + "/restored-from"

	componentLabel = "app.kubernetes.io/component"
	managedByLabel = "app.kubernetes.io/managed-by"
	partOfLabel    = "app.kubernetes.io/part-of"
)

const (
	// BackupsClaim is the claim that dumps are kept on.
	BackupsClaim = "database-backups"
	// backupTime is the time in names. Those of one environment sort by it.
	backupTime = "20060102-150405"
	// isolatedBackups is the name of the NetworkPolicy by which Jobs reach the database of an isolated environment.
	isolatedBackups = "isolated-backups"
)

// BackupName is the name of a backup of a time.
func BackupName(at time.Time) string { return Database + "-" + at.UTC().Format(backupTime) }

// RestoreName is the name of the Job that restores at a time.
func RestoreName(at time.Time) string { return Database + "-restore-" + at.UTC().Format(backupTime) }

// backupLabels are those of all that backs up the database of an environment.
func backupLabels(e *v1alpha1.Environment) map[string]string {
	return map[string]string{
		BackupOfLabel: e.Name, componentLabel: "database-backup", managedByLabel: "kubectl-berth", partOfLabel: "berth",
	}
}

// backupMeta is the metadata of an object where the environment runs.
func backupMeta(e *v1alpha1.Environment, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: e.Status.Namespace, Labels: backupLabels(e)}
}

// ClaimOfBackups is the claim that the dumps of an environment are kept on. A class of "" is the cluster's default.
func ClaimOfBackups(e *v1alpha1.Environment, size resource.Quantity, class string) *corev1.PersistentVolumeClaim {
	return claim(backupMeta(e, BackupsClaim), size, class)
}

// DataClaim is the claim that a database has its data on, "" if it has none. What runs says it: a claim of the same name may
// be left of an earlier spec.
func DataClaim(set *appsv1.StatefulSet) string {
	pod := &set.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		return ""
	}
	c := &pod.Containers[0]
	data := defaultPath
	for _, v := range c.Env {
		if v.Name == pgData && v.Value != "" {
			data = path.Clean(v.Value)
		}
	}
	name, deepest := "", -1
	for _, m := range c.VolumeMounts {
		if at := path.Clean(m.MountPath); Allows([]string{at}, data) && depth(at) > deepest {
			name, deepest = m.Name, depth(at)
		}
	}
	for i := range pod.Volumes {
		if v := &pod.Volumes[i]; v.Name == name && v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	return ""
}

// depth is how deep a clean path is.
func depth(directory string) int { return strings.Count(strings.TrimSuffix(directory, "/"), "/") }

// backupPolicies let what backs up and restores the database of an isolated environment reach it, and nothing else of it.
func (in *Input) backupPolicies() []runtime.Object {
	d := in.Environment.Spec.Stack.Database
	if !in.isolated() || d == nil {
		return nil
	}
	jobs := networkingv1.NetworkPolicyPeer{
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{BackupOfLabel: in.Environment.Name}},
	}
	return []runtime.Object{in.policy(isolatedBackups, in.selects(Database), networkingv1.NetworkPolicyIngressRule{
		From:  []networkingv1.NetworkPolicyPeer{jobs},
		Ports: []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(portOf(d)))}},
	})}
}
