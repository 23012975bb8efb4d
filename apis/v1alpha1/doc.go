// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the Go types of Berth's custom resources in version v1alpha1 of the API group berth.dev.
//
// +k8s:deepcopy-gen=package
// +groupName=berth.dev
package v1alpha1
