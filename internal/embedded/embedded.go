// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/api/errcode"
	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/distribution/distribution/v3/registry/storage/driver"
	"github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/gofrs/flock"
	"github.com/sirupsen/logrus"
)

// Options configures a registry. The zero value suits most uses.
type Options struct {
	// DisableDelete makes the registry answer 405 to every DELETE.
	DisableDelete bool
	// Logger receives the library's errors; nil: none. The last New decides for the process.
	Logger *slog.Logger
	// Reserve is disk space, in bytes, for Vital repositories alone when the rest is full. 0: none.
	Reserve int64
	Vital   func(repository string) bool // nil: none
	// Rule is asked before a tag is written; nil: every tag may be written.
	Rule TagRule
}

// Registry is an http.Handler for paths below /v2/.
type Registry struct {
	http.Handler
	log   *slog.Logger
	root  string       // "" in memory
	lock  *flock.Flock // nil in memory
	store *store       // nil in memory
	vital func(repository string) bool
}

// New returns the registry in dir, which is made if needed; "" keeps all in memory. For a directory
// in use the error is [ErrInUse].
func New(dir string, o Options) (*Registry, error) {
	quietLibrary(o.Logger)
	storage := configuration.Storage{
		"delete":      configuration.Parameters{"enabled": !o.DisableDelete},
		"maintenance": configuration.Parameters{"uploadpurging": map[any]any{"enabled": false}},
	}
	root, err := prepareFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open registry storage: %w", err)
	}
	r := &Registry{root: root, log: o.Logger, vital: o.Vital}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	var files driver.StorageDriver = inmemory.New()
	if root != "" {
		if err := r.openFolder(o.Reserve); err != nil {
			return nil, fmt.Errorf("open registry storage %s: %w", root, errors.Join(err, r.Close()))
		}
		files = r.store
	}
	register()
	storage[driverName] = configuration.Parameters{"store": files}
	if r.Handler, err = startApp(storage); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.Handler = &ruled{Handler: r.Handler, rule: o.Rule, seed: maphash.MakeSeed()}
	if root == "" {
		r.Handler = singlePost{r.Handler, files}
		return r, nil
	}
	r.Handler = blobs{singlePost{uploads{r.Handler, r.store}, files}, r}
	return r, nil
}

// openFolder locks the directory and cleans up what a killed process left in it.
func (r *Registry) openFolder(reserved int64) (err error) {
	if r.lock, err = lockDir(r.root); err != nil {
		return err
	}
	r.store = newStore(r.root, newChecks(r.log))
	n, err := r.store.removeDanglingTags(context.Background())
	if n > 0 {
		r.log.Warn("removed dangling tags, whose write was interrupted", "tags", n)
	}
	// Upload sessions end with the process: the library signs their links with
	// a key that it does not store.
	cut, errCut := r.store.removeUploads(context.Background())
	if cut > 0 {
		r.log.Info("removed interrupted uploads", "uploads", cut)
	}
	if err := errors.Join(err, errCut, r.store.emptyTrash()); err != nil {
		return err
	}
	r.store.reserve, err = openReserve(r.root, reserved, r.log)
	return err
}

// catalogPage is how many repositories one answer lists.
const catalogPage = 1000

// maxName bounds a repository's name, in characters, as the library (distribution/reference).
const maxName = 255

// startApp calls NewApp, which panics on a configuration that it considers wrong.
func startApp(storage configuration.Storage) (h http.Handler, err error) {
	defer func() {
		if p := recover(); p != nil {
			h = nil
			err = fmt.Errorf("start the built-in registry: %v", p)
		}
	}()
	c := configuration.Configuration{Storage: storage, Catalog: configuration.Catalog{MaxEntries: catalogPage}}
	c.HTTP.RelativeURLs = true // right behind any proxy, and nobody's headers are in them
	app := handlers.NewApp(context.Background(), &c)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := RepositoryOf(r.URL.Path); len(name) > maxName { // the library answers 500
			long := errcode.ErrorCodeNameInvalid.WithMessage(fmt.Sprintf("the repository name has %d characters, at most %d are allowed", len(name), maxName))
			_ = errcode.ServeJSON(w, long) // an error means that the client is gone
			return
		}
		app.ServeHTTP(w, r)
	}), nil
}

// Close releases the directory. The handler must not be used afterwards.
func (r *Registry) Close() error {
	if r.lock == nil {
		return nil
	}
	return r.lock.Close()
}

// prepareFolder makes the directory, checks that it can be written, and returns its absolute path.
func prepareFolder(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, ".okara-*")
	if isDiskFull(err) {
		return dir, nil // existing content can be read
	}
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return dir, os.Remove(f.Name())
}

// quietLibrary prevents the library from writing to stderr.
func quietLibrary(l *slog.Logger) {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.ErrorLevel)
	hooks := logrus.LevelHooks{}
	if l != nil {
		hooks.Add(forward{l})
	}
	logrus.StandardLogger().ReplaceHooks(hooks)
}

// forward passes the library's errors to slog: refusals at debug level, without fields that repeat
// headers.
type forward struct{ l *slog.Logger }

func (f forward) Levels() []logrus.Level { return []logrus.Level{logrus.ErrorLevel} }

func (f forward) Fire(e *logrus.Entry) error {
	level := slog.LevelError
	if status, ok := e.Data["http.response.status"].(int); ok && status < http.StatusInternalServerError {
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{slog.String("error", e.Message)}
	for _, key := range []string{"err.code", "err.message", "http.response.status"} {
		if v, ok := e.Data[key]; ok {
			attrs = append(attrs, slog.Any(key, v))
		}
	}
	f.l.LogAttrs(context.Background(), level, "built-in registry", attrs...)
	return nil
}
