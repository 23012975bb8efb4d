// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/pluginpb"

	orchestratorv1 "berth.dev/berth/apis/proto/mcp/orchestrator/v1"
)

// webClient is the folder with clients of browsers, which are generated from the published proto.
type webClient struct {
	t   *testing.T
	dir string
}

// command runs a program in the folder.
func (w *webClient) command(stdin io.Reader, name string, args ...string) []byte {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = w.dir, stdin
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(w.t, err, "%s: %s%s", name, out, stderr.String())
	return out
}

// newWebClient installs the pinned packages in out/web, and generates the client.
func newWebClient(t *testing.T) *webClient {
	t.Helper()
	dir, err := filepath.Abs("../../../../out/web")
	require.NoError(t, err)
	w := &webClient{t, dir}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{"package.json", "package-lock.json", "client.js", "page.js", "node.js"} {
		text, err := os.ReadFile(filepath.Join("testdata", "web", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	w.command(nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	w.generate()
	return w
}

// generate runs the generator, which is a plugin of protoc, without protoc.
func (w *webClient) generate() {
	w.t.Helper()
	r := &pluginpb.CodeGeneratorRequest{
		Parameter:      new("target=js"),
		FileToGenerate: []string{"mcp/orchestrator/v1/orchestrator.proto", "grpc/health/v1/health.proto"},
		ProtoFile: []*descriptorpb.FileDescriptorProto{
			protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto),
			protodesc.ToFileDescriptorProto(orchestratorv1.File_mcp_orchestrator_v1_orchestrator_proto),
			protodesc.ToFileDescriptorProto(healthpb.File_grpc_health_v1_health_proto),
		},
	}
	in, err := proto.Marshal(r)
	require.NoError(w.t, err)
	var generated pluginpb.CodeGeneratorResponse
	require.NoError(w.t, proto.Unmarshal(w.command(bytes.NewReader(in), "node_modules/.bin/protoc-gen-es"), &generated))
	require.Empty(w.t, generated.GetError())
	for _, f := range generated.File {
		path := filepath.Join(w.dir, "gen", f.GetName())
		require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(w.t, os.WriteFile(path, []byte(f.GetContent()), 0o600))
	}
}

// open opens the page in a browser without a window, and returns what the page got. The page is of another origin than the service.
func (w *webClient) open(page *httptest.Server, results <-chan string, browser, address string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--disable-gpu", "--no-first-run", "--no-sandbox", // of our own pages only
		"--user-data-dir="+w.t.TempDir(), "--remote-debugging-port=0", address)
	require.NoError(w.t, cmd.Start())
	defer func() {
		cancel()
		_ = cmd.Wait() // it was ended
	}()
	select {
	case r := <-results:
		return r
	case <-ctx.Done():
		require.Fail(w.t, "the page sent no result", page.URL)
		return ""
	}
}

// chromium is the name of the browser, "" if there is none.
func chromium() string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// webOptions are those of a client's run.
type webOptions struct {
	Address   string `json:"address"`
	Token     string `json:"token"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

const binaryWant = `{"name": "NAME", "description": "é", "cpu": "1", "selector": "{\"disktype\":\"ssd\"}", "health": 1,
	"invalid": "InvalidArgument 1 name: must be lower case letters", "withoutToken": "Unauthenticated"}`

// Generated clients of the published proto, in Node.js and in a page of a browser: make test-web.
func TestGeneratedClientsInABrowser(t *testing.T) {
	if os.Getenv("BERTH_TEST_WEB") == "" {
		t.Skip("make test-web runs it: it installs packages of npm")
	}
	w := newWebClient(t)
	results := make(chan string, 1)
	var options webOptions
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write([]byte(`<!doctype html><script type="module" src="/page.js"></script>`))
	})
	mux.HandleFunc("/page.js", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/javascript")
		http.ServeFile(rw, r, filepath.Join(w.dir, "bundle.js"))
	})
	mux.HandleFunc("/options", func(rw http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(rw).Encode(options) })
	mux.HandleFunc("/result", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		results <- string(text)
	})
	page := httptest.NewServer(mux)
	defer page.Close()
	s := serve(t, toBrowsers(page.URL))
	options = webOptions{"http://" + s.Address, s.Editor, s.Namespace, "from-node"}

	in, err := json.Marshal(options)
	require.NoError(t, err)
	requireResult(t, `{"binary": `+binaryWant+`}`, "from-node", string(w.command(bytes.NewReader(in), "node", "node.js")))

	browser := chromium()
	if browser == "" {
		t.Log("there is no chromium: only Node.js was tested")
		return
	}
	w.command(nil, "node_modules/.bin/esbuild", "page.js", "--bundle", "--format=esm", "--outfile=bundle.js", "--log-level=error")
	options.Name = "from-page"
	requireResult(t, `{"binary": `+binaryWant+`, "text": {"name": "NAME", "cpu": "1", "missing": "5", "health": 1}}`, "from-page",
		w.open(page, results, browser, page.URL))

	// The same page by another name is of another origin.
	options.Name = "from-another-page"
	assert.Contains(t, w.open(page, results, browser, strings.Replace(page.URL, "127.0.0.1", "localhost", 1)), `"error"`)
	assert.Equal(t, 2, s.count(), "a page of another origin calls nothing")
}

// requireResult compares, but for the text of an error after its beginning.
func requireResult(t *testing.T, want, name, got string) {
	t.Helper()
	var result map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(got), &result), got)
	invalid, _ := result["binary"]["invalid"].(string)
	require.True(t, strings.HasPrefix(invalid, "InvalidArgument 1 name"), got)
	result["binary"]["invalid"] = "InvalidArgument 1 name: must be lower case letters"
	cut, err := json.Marshal(result)
	require.NoError(t, err)
	require.JSONEq(t, strings.ReplaceAll(want, "NAME", name), string(cut))
}
