// SPDX-License-Identifier: Apache-2.0

// Command app is what the pods of the tests on kind run. It serves its host name
// on :8080, whether it is ready under /ready, and ends with code 1 when
// /exit is asked for.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
)

func main() {
	unready := flag.Bool("unready", false, "Never become ready.")
	flag.Parse()
	name, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	http.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if *unready {
			http.Error(w, "-unready", http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { log.Fatal("asked to exit") })
	fmt.Println(name, "serves on :8080")
	log.Fatal(http.ListenAndServe(":8080", nil))
}
