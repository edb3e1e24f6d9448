// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

// HeldOptions configure a [HeldServer].
type HeldOptions struct {
	Lock       *statebackend.Lock
	Repository string // HOST/PATH, the tool's name for the state; it need not be the real name
	Dir        string // private directory of the run, which the tool reads
	Shown      string // the path of Dir as the tool sees it; "": Dir
	Temp       string // for parts of large states; the tool need not see it
	Persist    time.Duration
	Stored     func(v statebackend.Version, state []byte) // state must not be changed
	Failed     func(error)
	Usage      func(state, before []byte) []byte // what is recorded with a state; nil: nothing
}

// HeldServer serves a state to commands of a tool, under a lock that its owner holds.
type HeldServer struct {
	facade *s3facade.Facade
	stop   context.CancelFunc
	done   sync.WaitGroup
	served error
	dir    string
}

// ServeHeld starts serving on loopback.
func ServeHeld(ctx context.Context, o HeldOptions) (*HeldServer, error) {
	key := rand.Text()
	h := &HeldServer{dir: cmp.Or(o.Shown, o.Dir), facade: s3facade.New(s3facade.Options{
		AccessKey: key, Repositories: []string{o.Repository}, Taken: o.Lock, Persist: o.Persist, Stored: o.Stored,
		Failed: o.Failed, TempDir: o.Temp,
	})}
	server, err := httpserve.Listen(httpserve.Options{Addr: "127.0.0.1:0", Handler: recordUsage(h.facade, o.Usage)})
	if err != nil {
		return nil, fmt.Errorf("serving the state: %w", err)
	}
	if err := writeProfile(o.Dir, server.URL(), key); err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	h.done.Go(func() { h.served = server.Serve(serving) })
	return h, nil
}

// Environment returns the variables that the tool needs, as NAME=VALUE.
func (h *HeldServer) Environment() []string { return []string{runVariable + "=" + h.dir} }

// Close waits for the requests under way, and stops the server.
func (h *HeldServer) Close() error {
	h.stop()
	h.done.Wait()
	return errors.Join(h.served, h.facade.Close())
}

// CheckHeldEnvironment refuses variables that lead the tool to another state.
func CheckHeldEnvironment(getenv func(string) string) error { return checkEnvironment(getenv) }

// PrepareHeld puts the backend of a [HeldServer] into a root module that no other process runs, in
// place of its own. It refuses encryption, a cloud workspace, and an override file that would win.
func PrepareHeld(dir, repository string) error {
	for _, ext := range []string{".tf", ".tf.json", ".tofu", ".tofu.json"} {
		name := strings.TrimSuffix(overrideName, ".tf") + ext
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("preparing the root module: %w", err)
		}
	}
	if err := eachFile(dir, checkHeldFile); err != nil {
		return err
	}
	c := Config{Declared: true, Backend: backendblock.Backend{Repository: repository}}
	return files.Replace(filepath.Join(dir, overrideName), c.Override(), 0o644)
}

// CheckUploaded refuses an override file that is read after another one and has a backend of its
// own and, unless allowed, encryption: its key program would run before any review.
func CheckUploaded(dir, after string, encryption bool) error {
	return eachFile(dir, func(body hcl.Body, name string, override bool) error {
		return checkUploadedFile(body, encryption, override && name > after)
	})
}

// eachFile calls do for each file of a root module that either tool reads.
func eachFile(dir string, do func(body hcl.Body, name string, override bool) error) error {
	for _, tofu := range []bool{true, false} {
		primary, override, err := configFiles(dir, tofu)
		if err != nil {
			return err
		}
		m := module{sources: map[string][]byte{}}
		for i, name := range append(primary, override...) {
			body, diags := m.parse(name)
			err := diagnosticsError(diags)
			if err == nil {
				err = do(body, filepath.Base(name), i >= len(primary))
			}
			if e, ok := errors.AsType[*positionError](err); ok {
				e.file = filepath.Base(e.file) // do not reveal the directory
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func checkUploadedFile(body hcl.Body, encryption, late bool) error {
	if body == nil {
		return errors.New("reading a file of the root module")
	}
	content, _, diags := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "terraform"}}})
	if diags.HasErrors() {
		return diagnosticsError(diags)
	}
	for _, b := range content.Blocks {
		inner, _, diags := b.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "encryption"}, {Type: "backend", LabelNames: []string{"type"}}, {Type: "cloud"}}})
		if diags.HasErrors() {
			return diagnosticsError(diags)
		}
		for _, i := range inner.Blocks {
			if i.Type != "encryption" {
				if late {
					return atPosition(i.DefRange, fmt.Errorf("block %q of this override file would replace that of the workspace, and the state be lost with the run\nhint: remove it from the upload", i.Type))
				}
				continue
			}
			if encryption {
				continue
			}
			return atPosition(i.DefRange, errors.New("a run on the server cannot have an \"encryption\" block: its key provider could run any program\nhint: remove it, since the server can encrypt the state; or ask its administrator to set tfe { allow_encryption = true }"))
		}
	}
	return nil
}

func checkHeldFile(body hcl.Body, name string, override bool) error {
	if body == nil {
		return fmt.Errorf("reading %s of the root module", name)
	}
	content, _, diags := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "terraform"}}})
	if diags.HasErrors() {
		return diagnosticsError(diags)
	}
	for _, b := range content.Blocks {
		inner, _, diags := b.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
			{Type: "backend", LabelNames: []string{"type"}}, {Type: "cloud"}, {Type: "encryption"},
		}})
		if diags.HasErrors() {
			return diagnosticsError(diags)
		}
		for _, i := range inner.Blocks {
			if i.Type != "backend" {
				return atPosition(i.DefRange, fmt.Errorf("block %q is not allowed in the root module of an instance: okara keeps its state, encrypted with the server's state keys", i.Type))
			}
			if override && name > overrideName {
				return atPosition(i.DefRange, fmt.Errorf("this override file is read after %s and would replace the backend of the instance", overrideName))
			}
		}
	}
	return nil
}
