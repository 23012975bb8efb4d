// SPDX-License-Identifier: Apache-2.0

package main

import "berth.dev/berth/controllers"

// addControllers adds the controllers to a manager that is not started yet. Tests of the wiring take its place.
var addControllers = controllers.Add
