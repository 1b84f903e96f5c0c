package containerd

import (
	"context"
	"errors"
	"sync"
)

// maxRemovals is how many closed containers may wait to be removed. The next
// one to close is removed by its own caller.
const maxRemovals = 32

// removals removes closed containers from the daemon one after another, off
// the path of the attempts: deleting costs as much as running.
type removals struct {
	mu      sync.Mutex
	changed *sync.Cond
	waiting []*container
	busy    map[string]error // ids that are waiting, being removed, or could not be removed
	ended   bool
	done    chan struct{}
}

var errRemoving = errors.New("sandbox: it is being removed")

func (q *removals) start(r *Runtime) {
	q.busy, q.done, q.changed = map[string]error{}, make(chan struct{}), sync.NewCond(&q.mu)
	go func() {
		defer close(q.done)
		for {
			c := q.next()
			if c == nil {
				return
			}
			q.remove(c)
		}
	}()
}

// next waits for a container; nil says that no more will come.
func (q *removals) next() *container {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 && !q.ended {
		q.changed.Wait()
	}
	if len(q.waiting) == 0 {
		return nil
	}
	c := q.waiting[0]
	q.waiting = q.waiting[1:]
	return c
}

func (q *removals) add(c *container) {
	q.mu.Lock()
	q.busy[c.id] = errRemoving
	full := len(q.waiting) >= maxRemovals || q.ended
	if !full {
		q.waiting = append(q.waiting, c)
	}
	q.changed.Broadcast()
	q.mu.Unlock()
	if full {
		q.remove(c)
	}
}

func (q *removals) remove(c *container) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := c.remove(ctx)
	if err != nil { // whatever was in the way may be gone
		err = c.remove(ctx)
	}
	c.rt.mu.Lock()
	delete(c.rt.open, c.id)
	c.rt.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy[c.id] = err
	if err == nil {
		delete(q.busy, c.id)
	}
	q.changed.Broadcast()
}

// settle waits until a container that was closed is removed, and tells how
// that went; nil when there is none.
func (q *removals) settle(id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for errors.Is(q.busy[id], errRemoving) {
		q.changed.Wait()
	}
	return q.busy[id]
}

// Settle waits until what was closed is removed. The error is what could not
// be.
func (r *Runtime) Settle(ctx context.Context) error {
	q := &r.removals
	stop := context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
	defer stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		removing := false
		var errs []error
		for _, err := range q.busy {
			if errors.Is(err, errRemoving) {
				removing = true
			} else {
				errs = append(errs, err)
			}
		}
		if !removing || ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		q.changed.Wait()
	}
}

// finish removes all that waits. Its error is what could not be removed.
func (q *removals) finish() error {
	if q.done == nil { // never started
		return nil
	}
	q.mu.Lock()
	q.ended = true
	q.changed.Broadcast()
	q.mu.Unlock()
	<-q.done
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs []error
	for _, err := range q.busy {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
