// SPDX-License-Identifier: Apache-2.0

// Command app is what the pods of the tests on kind run. It serves its host name
// on the port HTTP_PORT or 8080, whether it is ready under /ready, and ends with code 1 when
// /exit is called. With the flag of another mode, it does that and ends.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	unready := flag.Bool("unready", os.Getenv("UNREADY") != "", "Never become ready.")
	end := flag.Int("end", -1, "End at once, with this code.")
	get := flag.String("get", "", "Print what is behind a URL, of http, file, or tcp, which is only connected to; fail if it can't be had.")
	load := flag.String("load", "", "Request an HTTP URL 50 times a second, on a connection of its own each, until SIGTERM; then print how often it failed.")
	flag.Parse()
	switch {
	case *end >= 0:
		os.Exit(*end)
	case *get != "":
		if err := show(*get); err != nil {
			log.Fatal(err)
		}
	case *load != "":
		ask(*load)
	default:
		serve(*unready)
	}
}

func serve(unready bool) {
	name, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	http.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if unready {
			http.Error(w, "-unready", http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { log.Fatal("asked to exit") })
	address := ":" + cmp.Or(os.Getenv("HTTP_PORT"), "8080")
	fmt.Println(name, "serves on", address)
	log.Fatal(http.ListenAndServe(address, nil))
}

// client makes a connection for every request, as many clients would.
var client = http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func show(what string) error {
	u, err := url.Parse(what)
	if err != nil {
		return err
	}
	switch u.Scheme {
	case "file":
		text, err := os.ReadFile(u.Path)
		fmt.Print(string(text))
		return err
	case "tcp":
		c, err := net.DialTimeout("tcp", u.Host, client.Timeout)
		if err == nil {
			fmt.Println(c.RemoteAddr())
			err = c.Close()
		}
		return err
	}
	text, err := read(what)
	fmt.Print(text)
	return err
}

func read(from string) (string, error) {
	r, err := client.Get(from)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", from, r.Status)
	}
	return string(text), err
}

// ask calls a URL and writes a line for the first answer, for every request that fails, and for the sum at the end.
func ask(from string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ok, failed := 0, 0
	tick := time.NewTicker(20 * time.Millisecond)
	for ctx.Err() == nil {
		if _, err := read(from); err != nil {
			failed++
			fmt.Println("failed:", err)
		} else if ok++; ok == 1 {
			fmt.Println("answered")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	fmt.Printf("%d answered, %d failed\n", ok, failed)
}
