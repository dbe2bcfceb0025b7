"""Whether a hop may be tried now: slots, queue, quota, holds, circuit breaker, health."""
