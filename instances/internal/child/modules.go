// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/modulelock"
	"github.com/seed-141914ff/okara/internal/text"
)

// initLocked runs init so that it selects the modules in the configuration's lock, and compares what it
// has installed, before anything is evaluated.
func initLocked(ctx context.Context, c *child, p prepared, init func() error) error {
	src, err := c.dir.Read(path.Join(sandbox.Tool, p.module, modulelock.Name), modulelock.MaxSize)
	required := (c.Order.Spec.RequireLock || !isOff(c.input.Environment[sandbox.RequireLock])) && c.Order.Spec.Ref.Kind != lifecycle.RunDestroy // what was made can be removed
	if errors.Is(err, fs.ErrNotExist) && !required {
		return init()
	}
	c.stays = true
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the configuration has no %s, which this run requires\nhint: run `okara lock --modules` after init in its folder, and add the file to the configuration", modulelock.Name)
	}
	if err != nil {
		return err
	}
	lock, err := modulelock.Parse(modulelock.Name, src)
	if err != nil {
		return err
	}
	c.stays = false
	if err := initSelected(ctx, c, lock, init); err != nil {
		return err
	}
	return c.readInstalled(func(in modulelock.Files, dir, dataDir string) error {
		err := lock.CheckInstalled(in, dir, dataDir,
			"if the installed modules are correct, run `okara tofu init -upgrade` and `okara lock --modules --upgrade`, and use the configuration with the new file")
		c.stays = err != nil
		return err
	})
}

// readInstalled calls do with the files of the tool's folder, and the root module's with its data folder in it.
func (c *child) readInstalled(do func(in modulelock.Files, dir, dataDir string) error) error {
	root, err := c.dir.OpenRoot(sandbox.Tool + "/" + moduleFolder)
	if err != nil {
		return err
	}
	defer root.Close()
	dir := path.Clean(c.Order.Spec.Source.Path)
	return do(modulelock.Files{Open: root.Open, OpenRoot: root.OpenRoot}, dir, path.Join(dir, ".terraform"))
}

// isOff reports whether a variable leaves a requirement off.
func isOff(value string) bool { return value == "" || value == "false" }

// initSelected runs init with a CLI configuration that leads to the locked versions.
func initSelected(ctx context.Context, c *child, lock *modulelock.File, init func() error) (err error) {
	config, err := frontEnd(c.Order.Server).cliConfig(c.isRemote())
	if err != nil {
		return err
	}
	transport, err := openTransport(&c.Order, httpserve.TransportOptions{}, "server-ca.pem", c.Order.Server.CA)
	if err != nil {
		return err
	}
	asking, cancel := c.stop.context(ctx)
	defer cancel()
	selecting, skipped, stop, err := lock.Select(asking, transport, []byte(config), nil)
	if err != nil {
		return err
	}
	for _, err := range skipped {
		c.log.logLine("okara: locked module versions are not enforced, the tool selects versions itself: %s", text.Line(err.Error()))
	}
	if selecting != nil {
		if err := c.dir.Give(configFile, selecting); err != nil {
			return errors.Join(err, stop())
		}
	}
	return errors.Join(init(), stop(), c.dir.Give(configFile, []byte(config)))
}
