# kind: silent-data, tensor: ball.speed
import torch
import torch.nn as nn


class Ball:
    def __init__(self, height, speed):
        self.height, self.speed = height, speed


def bounce(ball, loss=0.8):
    below = ball.height < 0
    ball.speed.data[below] *= -loss  # overwrites


torch.manual_seed(0)
throw = nn.Linear(2, 5)
ball = Ball(torch.zeros(5), throw(torch.ones(2)))
for _ in range(6):
    ball.speed = ball.speed - 0.5
    bounce(ball)
    ball.height = ball.height + ball.speed
ball.height.sum().backward()
print("RESULT", throw.weight.grad.norm().item())
