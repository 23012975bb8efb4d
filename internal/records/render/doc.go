// SPDX-License-Identifier: Apache-2.0

// Package render works out what becomes of a DeploymentRecord: its name, the
// template it is rendered with, the objects, and where their pods may run. It is
// pure: it reads nothing and writes nothing. docs/deployment-records.md describes for
// users what it does.
package render
