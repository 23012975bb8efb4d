// SPDX-License-Identifier: Apache-2.0

// Package config holds the internal version of the arguments of Berth's scheduler plugins.
//
// +k8s:deepcopy-gen=package
// +groupName=kubescheduler.config.k8s.io
package config
