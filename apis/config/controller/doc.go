// SPDX-License-Identifier: Apache-2.0

// Package controller holds the configuration file of berth-controller.
//
// +groupName=config.berth.dev
// +versionName=v1alpha1
package controller
