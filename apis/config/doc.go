// SPDX-License-Identifier: Apache-2.0

// Package config holds the internal form of the arguments of Berth's scheduler plugins, as the plugins read them.
//
// +k8s:deepcopy-gen=package
// +groupName=kubescheduler.config.k8s.io
package config
