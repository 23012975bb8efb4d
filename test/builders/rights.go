// SPDX-License-Identifier: Apache-2.0

package builders

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Rule grants verbs on resources of an API group.
func Rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// User and ServiceAccount are whom rights are granted to.
func User(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// ServiceAccount is one of a namespace.
func ServiceAccount(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// Grant makes a Role and a RoleBinding of one name, which grant rights to someone.
func Grant(name string, to rbacv1.Subject, rules ...rbacv1.PolicyRule) []client.Object {
	return []client.Object{&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, RoleBinding(name, name, to)}
}

// RoleBinding grants the rights of a Role.
func RoleBinding(name, role string, to ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: to,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	}
}

// ClusterGrant makes a ClusterRole and a ClusterRoleBinding of one name, which grant rights to someone.
func ClusterGrant(name string, to rbacv1.Subject, rules ...rbacv1.PolicyRule) []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{to},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		},
	}
}
