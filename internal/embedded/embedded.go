// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/sirupsen/logrus"

	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

// Options configure a registry. The zero value is right for most.
type Options struct {
	// DisableDelete makes the registry answer 405 to every DELETE.
	DisableDelete bool
	// Logger gets the library's errors, nil: none. The library knows one
	// logger per process, so the last New decides.
	Logger *slog.Logger
}

// New returns the registry kept in dir, which is created if needed; an empty
// dir keeps everything in memory. The handler serves paths below /v2/.
func New(dir string, o Options) (h http.Handler, err error) {
	driver, params := "inmemory", configuration.Parameters{}
	if dir != "" {
		if dir, err = prepare(dir); err != nil {
			return nil, fmt.Errorf("open registry storage: %w", err)
		}
		driver, params = "filesystem", configuration.Parameters{"rootdirectory": dir}
	}
	quiet(o.Logger)
	config := &configuration.Configuration{Storage: configuration.Storage{
		driver:        params,
		"delete":      configuration.Parameters{"enabled": !o.DisableDelete},
		"maintenance": configuration.Parameters{"uploadpurging": map[any]any{"enabled": false}},
	}}
	// NewApp panics on what it thinks of as a wrong configuration.
	defer func() {
		if p := recover(); p != nil {
			h, err = nil, fmt.Errorf("start registry on %q: %v", dir, p)
		}
	}()
	return handlers.NewApp(context.Background(), config), nil
}

// prepare makes the directory and finds out now whether it can be written.
func prepare(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, ".okara-*")
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return dir, os.Remove(f.Name())
}

// quiet keeps the library off stderr.
func quiet(l *slog.Logger) {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.ErrorLevel)
	hooks := logrus.LevelHooks{}
	if l != nil {
		hooks.Add(forward{l})
	}
	logrus.StandardLogger().ReplaceHooks(hooks)
}

// forward hands the library's errors to slog. Its fields repeat the request,
// with headers we would have to redact, so only the text is kept.
type forward struct{ l *slog.Logger }

func (f forward) Levels() []logrus.Level { return []logrus.Level{logrus.ErrorLevel} }

func (f forward) Fire(e *logrus.Entry) error {
	f.l.Error("embedded registry", "error", e.Message)
	return nil
}
