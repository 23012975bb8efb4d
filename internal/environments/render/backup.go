// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
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
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/environments/stack"
)

// Labels of what backs up and restores a database. Pods have neither label of an environment, by which mixes and Services select
// pods. Objects have one of the two, and the controller deletes only what has both and is not rendered.
const (
	// BackupOfLabel is the id of the Environment whose database something backs up or restores.
	BackupOfLabel = v1alpha1.AnnotationPrefix + "/backup-of"
	// OperationNamespaceLabel is the namespace of the DatabaseBackup or DatabaseRestore, BackupLabel or RestoreLabel its name.
	OperationNamespaceLabel = v1alpha1.AnnotationPrefix + "/operation-namespace"
	BackupLabel             = v1alpha1.AnnotationPrefix + "/database-backup"
	RestoreLabel            = v1alpha1.AnnotationPrefix + "/database-restore"
	// BackupComponent is the value of ComponentLabel.
	BackupComponent = "database-backup"

	componentLabel = "app.kubernetes.io/component"
	managedByLabel = "app.kubernetes.io/managed-by"
	partOfLabel    = "app.kubernetes.io/part-of"
)

const (
	// BackupsClaim is the claim that dumps are kept on.
	BackupsClaim = "database-backups"
	// backupsSize is its default size.
	backupsSize = "10Gi"
	// BackupTime is the time in names. Those of one environment sort by it.
	BackupTime = "20060102-150405"
	// isolatedBackups is the name of the NetworkPolicy by which Jobs reach the database of an isolated environment.
	isolatedBackups = "isolated-backups"
)

// OperationName is the name of a DatabaseBackup or DatabaseRestore that is created at a time: the name of its environment, shortened
// to what the CRDs allow, and the time.
func OperationName(environment string, at time.Time) string {
	const longest = 36
	if len(environment) > longest {
		environment = strings.TrimRight(environment[:longest], "-.")
	}
	return environment + "-" + at.UTC().Format(BackupTime)
}

// podLabels are those of the pods that back up the database of an environment, or restore it.
func podLabels(e *v1alpha1.Environment) map[string]string {
	return map[string]string{BackupOfLabel: e.Name, componentLabel: BackupComponent, managedByLabel: "berth", partOfLabel: "berth"}
}

// backupMeta is the metadata of an object in the namespace that an environment runs in.
func backupMeta(e *v1alpha1.Environment, name string) metav1.ObjectMeta {
	labels := podLabels(e)
	labels[v1alpha1.EnvironmentLabel], labels[v1alpha1.ComponentLabel] = e.Name, BackupComponent
	return metav1.ObjectMeta{Name: name, Namespace: e.Status.Namespace, Labels: labels}
}

// ofBackup is the metadata of an object that a DatabaseBackup creates.
func ofBackup(e *v1alpha1.Environment, b *v1alpha1.DatabaseBackup, suffix string) metav1.ObjectMeta {
	meta := backupMeta(e, b.Name+suffix)
	meta.Labels[BackupLabel], meta.Labels[OperationNamespaceLabel] = b.Name, b.Namespace
	return meta
}

// ClaimOfBackups is the claim that the dumps of an environment are kept on.
func ClaimOfBackups(e *v1alpha1.Environment, s *v1alpha1.DatabaseBackupStorage) *corev1.PersistentVolumeClaim {
	size, class := backupsSize, ""
	if s != nil {
		size, class = cmp.Or(s.Size, size), s.StorageClassName
	}
	quantity, err := budget.ParseQuantity(size)
	if err != nil { // the CRD refuses it
		quantity = resource.MustParse(backupsSize)
	}
	return claim(backupMeta(e, BackupsClaim), quantity, class)
}

// DataClaim is the claim that a database has its data on, "" if it has none. What runs decides it: a claim of the same name may
// be left of an earlier spec.
func DataClaim(set *appsv1.StatefulSet) string {
	pod := &set.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		return ""
	}
	c := &pod.Containers[0]
	data := stack.DefaultDataPath
	for _, v := range c.Env {
		if v.Name == pgData && v.Value != "" {
			data = path.Clean(v.Value)
		}
	}
	name, deepest := "", -1
	for _, m := range c.VolumeMounts {
		if at := path.Clean(m.MountPath); stack.AllowsPath([]string{at}, data) && depth(at) > deepest {
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
	return []runtime.Object{in.policy(isolatedBackups, in.selects(stack.Database), networkingv1.NetworkPolicyIngressRule{
		From:  []networkingv1.NetworkPolicyPeer{jobs},
		Ports: []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(portOf(d)))}},
	})}
}
